/** Benchmark harnesses of other projects run against the gateway as they come, and agree with its metrics. */
import { mkdirSync, rmSync } from 'node:fs'
import { startFleet } from '../../../simulator/src/node/fleet-host.ts'
import { prepareEnvironment } from '../environment.ts'
import { servedModel } from '../engine.ts'
import { harnesses, installHarness, OUTPUT_TOKENS, programOf, REQUESTS } from '../harness.ts'
import type { Harness, HarnessReport } from '../harness.ts'
import { send } from '../http.ts'
import { RefutedError, type Finding, type Lab, type Row } from '../row.ts'
import { gatewayKey } from '../gateway.ts'
import { inCache, serveAlone, using } from '../standalone.ts'
import { sendAsAdmin } from './decisions.ts'

/** A start of Python with all of a harness's packages takes minutes on a busy machine. */
const RUN_LIMIT_S = 600

/** What the gateway counted. */
interface GatewayCounts {
  readonly completed: number
  readonly outputTokens: number
  readonly ttftSumS: number
  readonly ttftCount: number
}

/** Sums over all engines, from the text of `/metrics`. */
function countedIn(text: string): GatewayCounts {
  const sum = (name: string, labels = ''): number =>
    text
      .split('\n')
      .filter((line) => line.startsWith(`${name}{`) && line.includes(labels))
      .reduce((total, line) => total + Number(line.slice(line.lastIndexOf(' '))), 0)
  return {
    // Calls of `/tokenize` are complete requests, too, but have no first token.
    completed: sum('gen_ai_server_time_to_first_token_seconds_count'),
    outputTokens: sum('firstlight_generation_tokens_total'),
    ttftSumS: sum('gen_ai_server_time_to_first_token_seconds_sum'),
    ttftCount: sum('gen_ai_server_time_to_first_token_seconds_count'),
  }
}

const since = (now: GatewayCounts, before: GatewayCounts): GatewayCounts => ({
  completed: now.completed - before.completed,
  outputTokens: now.outputTokens - before.outputTokens,
  ttftSumS: now.ttftSumS - before.ttftSumS,
  ttftCount: now.ttftCount - before.ttftCount,
})

interface Run {
  readonly harness: Harness
  readonly url: string
  readonly program: string
  readonly env?: Readonly<Record<string, string>>
  metrics(): Promise<string>
}

async function runHarness({ processes }: Lab, { harness, url, program, env = {}, metrics }: Run): Promise<Finding> {
  const folder = inCache('harness-reports', harness.name)
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder, { recursive: true })
  const target = { url, model: servedModel, tokenizer: inCache('models', 'tiny'), folder }
  const before = countedIn(await metrics())
  await processes.finish({
    what: `run ${harness.name}`,
    command: harness.command(target, program),
    folder,
    env: { VLLM_NO_USAGE_STATS: '1', DO_NOT_TRACK: '1', ...env },
    limitS: RUN_LIMIT_S,
  })
  return compared(harness, harness.read(folder), since(countedIn(await metrics()), before))
}

function compared({ packaged }: Harness, report: HarnessReport, counted: GatewayCounts): Finding {
  const ttftMs = (1000 * counted.ttftSumS) / Math.max(1, counted.ttftCount)
  const seen =
    `${packaged === null ? '' : `${packaged.name} ${packaged.version}: `}harness ${report.completed} complete, ` +
    `${report.failed} failed, ${report.outputTokens} output tokens, mean TTFT ${report.meanTtftMs.toFixed(0)} ms; ` +
    `gateway ${counted.completed} complete, ${counted.outputTokens} output tokens, mean TTFT ${ttftMs.toFixed(0)} ms`
  const finding = { seen, detail: '' }
  const agrees = report.completed === counted.completed && report.outputTokens === counted.outputTokens
  const isWhole = report.completed === REQUESTS && report.failed === 0
  if (!agrees || !isWhole || report.outputTokens !== REQUESTS * OUTPUT_TOKENS) throw new RefutedError(finding)
  return finding
}

/** Three simulated engines behind a gateway without keys. */
async function runOnSimulator(lab: Lab, harness: Harness, program: string): Promise<Finding> {
  await prepareEnvironment(lab.processes)
  const fleet = await startFleet({ engines: 3, profile: 'demo', model: servedModel })
  try {
    const engines = fleet.urls.map((url, at) => ({ id: `sim-${at}`, url }))
    const document = { clusters: [{ id: 'lab', pools: [{ model: servedModel, engines }] }] }
    return await using(await serveAlone(lab, `harness-${harness.name}`, document), ({ url }) =>
      runHarness(lab, {
        harness,
        url,
        program,
        metrics: async () => (await send({ url, method: 'GET', path: '/metrics' })).body.toString('utf8'),
      }),
    )
  } finally {
    await fleet.close()
  }
}

const says = (title: string, engines: string): string =>
  `${title}, as it comes, completes ${REQUESTS} streams through the gateway before ${engines}; its counts of requests ` +
  'and output tokens are those of the gateway’s metrics.'

const onSimulator = (harness: Harness): Row => ({
  name: `harness-${harness.name}`,
  says: says(`\`${harness.name}\` from PyPI`, 'three simulated engines'),
  missing: ({ processes }) => installHarness(harness, processes),
  run: (lab) => runOnSimulator(lab, harness, programOf(harness)),
})

export const harnessRows: readonly Row[] = [
  onSimulator(harnesses.aiperf),
  onSimulator(harnesses.guidellm),
  onSimulator(harnesses.inferencePerf),
  {
    name: 'harness-vllm-bench-simulated',
    says: says('`vllm bench serve`', 'three simulated engines'),
    run: (lab) => runOnSimulator(lab, harnesses.vllmBench, lab.environment.bin('vllm')),
  },
]

/** Beside the rows that use the same engines. */
export const vllmBenchRow: Row = {
  name: 'harness-vllm-bench',
  says: says('`vllm bench serve`', 'two vLLM servers'),
  run: async (lab) => {
    const gateway = await lab.gateway('node')
    return runHarness(lab, {
      harness: harnesses.vllmBench,
      url: gateway.url,
      program: lab.environment.bin('vllm'),
      env: { OPENAI_API_KEY: gatewayKey },
      metrics: () => sendAsAdmin(gateway, '/metrics', 'GET'),
    })
  },
}
