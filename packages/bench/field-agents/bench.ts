/** `--agents` of the field bench: coding agents, unchanged from npm, through the built gateway. */
import { Processes } from '../conformance/processes.ts'
import { inCache } from '../conformance/standalone.ts'
import type { BenchOptions, BenchResult, BenchRow } from '../result.ts'
import { agents } from './agents.ts'
import { installAgent } from './install.ts'
import { measureAgent } from './measure.ts'
import type { TurnFigures } from './turns.ts'

interface TaskResult {
  readonly row: BenchRow
  readonly figures: TurnFigures
}

/** `--agent NAME` measures one of them. Throws if an agent cannot run: figures of the others would hide it. */
export async function agentsBench({ flags, note }: BenchOptions): Promise<BenchResult> {
  const chosen = agents.filter(({ name }) => flags['agent'] === undefined || flags['agent'] === name)
  const processes = new Processes(inCache('logs'), note)
  const measured: TaskResult[] = []
  try {
    for (const agent of chosen) {
      const missing = await installAgent(agent, processes)
      if (missing !== null) throw new Error(missing)
      const { conversations, changingHeader, faults } = await measureAgent(agent, processes)
      const rowOf = (what: string, figures: TurnFigures): TaskResult => ({
        figures,
        row: {
          agent: `${agent.name} ${agent.version}`,
          what,
          faults: faults.length,
          follow_ups: figures.followUps,
          predicted_share_error_max: figures.shareErrorMax,
          turns_on_holder: figures.onHolder,
        },
      })
      measured.push(rowOf('three conversations', conversations))
      if (changingHeader !== null) measured.push(rowOf('the same, first system block changes', changingHeader))
    }
  } finally {
    await processes.stopAll()
  }
  return {
    rows: measured.map(({ row }) => row),
    headline: {
      agents: chosen.length,
      predicted_share_error_max: Math.max(...measured.map(({ figures }) => figures.shareErrorMax)),
      turns_on_holder: Math.min(...measured.map(({ figures }) => figures.onHolder)),
    },
  }
}
