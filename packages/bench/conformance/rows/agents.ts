/** Coding agents, unchanged from npm, finish a task of three steps through the gateway before scripted engines. */
import { agents, type Agent } from '../../field-agents/agents.ts'
import { installAgent } from '../../field-agents/install.ts'
import { measureAgent } from '../../field-agents/measure.ts'
import type { TurnFigures } from '../../field-agents/turns.ts'
import { check, type Lab, type Row } from '../row.ts'

const MAX_SHARE_ERROR = 0.05
const MIN_ON_HOLDER = 0.95

const percent = (share: number): string => `${(100 * share).toFixed(1)} %`

const briefly = ({ followUps, onHolder, shareErrorMax }: TurnFigures): string =>
  `${Math.round(onHolder * followUps)} of ${followUps} follow-up turns at the holder, cached share within ` +
  percent(shareErrorMax)

async function runAgentRow({ processes }: Lab, agent: Agent): Promise<string> {
  const { conversations, changingHeader, faults, isolation } = await measureAgent(agent, processes)
  const all = changingHeader === null ? [conversations] : [conversations, changingHeader]
  const [plain, changing] = all.map(briefly)
  const seen =
    `${agent.version} (${isolation}): finished in spite of ${faults.join(', ')}; ${plain}` +
    (changing === undefined ? '' : `; if the first system block changes: ${changing}`)
  for (const { shareErrorMax, onHolder } of all)
    check(shareErrorMax <= MAX_SHARE_ERROR && onHolder >= MIN_ON_HOLDER, seen)
  return seen
}

export const agentRows: readonly Row[] = agents.map((agent) => ({
  name: `agent-${agent.name}`,
  says:
    `${agent.title} (${agent.path}), unchanged from npm and without a network, reads a file, edits it and runs a ` +
    'command through the gateway before two scripted engines, also when engines are busy, send an error event or ' +
    'break the stream; follow-up turns go to the engine that holds the conversation.',
  missing: ({ processes }) => installAgent(agent, processes),
  run: (lab) => runAgentRow(lab, agent),
}))
