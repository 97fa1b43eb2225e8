import { basename } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fitProfile, type Score, scoreProfile } from '../calibrate/fit.ts'
import { costModelFromTotals, readTotals, type Totals } from '../calibrate/from-metrics.ts'
import { type MeasuredRequest, readMeasured } from '../calibrate/measured.ts'
import { explainFetchError } from '../../../../src/cli/connect-error.ts'
import type { EngineLimits, Profile } from '../../../simulator/src/profiles.ts'
import { TraceError } from '../replay/trace-error.ts'
import { readInput } from '../../../../src/platform/node/usage-error.ts'
import type { Args, Command, Io } from '../../../../src/cli/commands/command.ts'
import { UsageError } from '../../../../src/platform/node/usage-error.ts'
import { progressFlag, progressOf } from '../../../../src/cli/commands/progress-bar.ts'
import { table } from '../../../../src/cli/commands/text-table.ts'
import { asJson, outputOf } from '../../../../src/cli/commands/output-file.ts'
import { httpUrl } from '../../../../src/cli/commands/common-flags.ts'
export const calibrate: Command = {
  name: 'calibrate',
  summary: 'Fit a hardware profile to a measured run or a running engine, and report the error of the fit.',
  examples: [
    'firstlight calibrate --requests run.requests.jsonl --max-num-seqs 128 --json mine.json',
    'firstlight calibrate --metrics http://127.0.0.1:8001/metrics --seconds 60 --json mine.json',
    'firstlight replay --trace traffic.jsonl --profile mine.json',
  ],
  positionals: null,
  instead: {
    metrics: ['requests', 'fit-share', 'evaluations', 'ranks', 'experts'],
    requests: ['seconds', 'interval-ms'],
  },
  flags: {
    requests: {
      type: 'string',
      value: 'FILE',
      about:
        'A measured run, one JSON object per line: input_toks, output_toks, queued_ts, first_token_ts, ' +
        'last_token_ts (seconds).',
    },
    'fit-share': {
      type: 'string',
      value: 'X',
      about: 'Share of the requests used for fitting; the rest is used for scoring. Default: 0.5.',
    },
    evaluations: { type: 'string', value: 'N', about: 'Maximum number of simulated runs. Default: 300.' },
    ranks: { type: 'string', value: 'N', about: 'Data-parallel ranks of the server. Default: 1.' },
    experts: {
      type: 'string',
      value: 'K/N',
      about:
        'Mixture of experts: experts per token of all experts, as in 8/128 (num_experts_per_tok and ' +
        'num_experts in config.json).',
    },
    metrics: { type: 'string', value: 'URL', about: 'The /metrics URL of a busy engine, instead of a measured run.' },
    seconds: { type: 'string', value: 'N', about: 'Observation time. Default: 60.' },
    'interval-ms': { type: 'string', value: 'N', about: 'Polling interval. Default: 1000.' },
    'max-num-seqs': { type: 'string', value: 'N', about: 'The server’s flag. Default: 256.' },
    'max-num-batched-tokens': { type: 'string', value: 'N', about: 'The server’s flag. Default: 2048.' },
    'cache-tokens': { type: 'string', value: 'N', about: 'Capacity of its KV cache in tokens. Default: 500000.' },
    json: {
      type: 'string',
      value: 'FILE',
      about: 'Write the profile to this file, for firstlight replay --profile FILE.',
    },
    ...progressFlag,
  },
  run: runCalibrate,
}

const BLOCK_TOKENS = 16

async function runCalibrate(args: Args, io: Io): Promise<number> {
  const file = args.text('requests')
  const url = args.text('metrics')
  if ((file === null) === (url === null))
    throw new UsageError(
      'firstlight calibrate needs either --requests or --metrics.',
      `Example: ${calibrate.examples[0]}`,
    )
  const write = outputOf(args, 'json')
  const calibration = file === null ? await fromMetrics(url!, args, io) : fromRequests(file, args, io)
  for (const [name, value] of Object.entries(calibration.profile.costModel))
    io.out(`${name.padEnd(22)} ${Number(value.toPrecision(4))}`)
  write(() => asJson(calibration))
  return 0
}

function row(name: string, { measured, simulated, error }: Score['ttftP50Ms']): string[] {
  return [name, measured.toFixed(0), simulated.toFixed(0), `${(error * 100).toFixed(1)} %`]
}

interface Calibration {
  readonly profile: Profile
  readonly score: Score | null
}

function fromRequests(file: string, args: Args, io: Io): Calibration {
  const measured = measuredOf(file)
  const share = args.number('fit-share', { min: 0.05, max: 0.95 }) ?? 0.5
  const fitted = Math.round(measured.length * share)
  const engines = args.whole('ranks', { min: 1, max: 64 }) ?? 1
  const bar = progressOf('simulated runs', args, io)
  const evaluations = args.whole('evaluations', { min: 10, max: 100_000 }) ?? 300
  const profile = fitProfile(measured, {
    name: basename(file),
    limits: limitsOf(args),
    engines,
    expertShare: expertShareOf(args, engines),
    fitted,
    evaluations,
    progress: bar.draw,
  })
  bar.clear()
  const score = scoreProfile(measured, profile, { engines, from: fitted })
  io.out(`Fitted on the first ${fitted} requests, scored on the other ${score.requests}:\n`)
  const rows = [
    row('ttft_p50_ms', score.ttftP50Ms),
    row('ttft_p90_ms', score.ttftP90Ms),
    row('ttft_p99_ms', score.ttftP99Ms),
    row('output_tokens_per_s', score.outputTokensPerS),
  ]
  for (const line of table([['', 'measured', 'simulated', 'error'], ...rows])) io.out(line)
  io.out('')
  return { profile, score }
}

/**
 * Reads the number of experts per rank. Expert-parallel ranks share the experts, and each rank computes its own for
 * all tokens.
 */
function expertShareOf(args: Args, ranks: number): number | null {
  const text = args.text('experts')
  if (text === null) return null
  const [chosen = 0, all = 0] = text.split('/').map(Number)
  if (!(chosen >= 1 && all > chosen))
    throw new UsageError(`--experts must be K/N with K less than N, not "${text}".`, 'Example: --experts 8/128')
  return 1 - (1 - chosen / all) ** ranks
}

function measuredOf(file: string): MeasuredRequest[] {
  const text = readInput(file, 'docs/calibrate.md shows how to record one.').toString('utf8')
  try {
    const measured = readMeasured(text)
    if (measured.length >= 20) return measured
    throw new UsageError(
      `--requests: ${file} holds ${measured.length} requests; a fit needs at least 20.`,
      'Record a longer run.',
    )
  } catch (error) {
    throw error instanceof TraceError
      ? new UsageError(
          `--requests: line ${error.line} of ${file} ${error.problem}.`,
          'docs/calibrate.md describes the file.',
        )
      : error
  }
}

function limitsOf(args: Args): EngineLimits {
  const whole = (flag: string, otherwise: number) => args.whole(flag, { min: 1, max: 1e12 }) ?? otherwise
  return {
    blockTokens: BLOCK_TOKENS,
    cacheBlocks: Math.max(1, Math.floor(whole('cache-tokens', 500_000) / BLOCK_TOKENS)),
    maxNumSeqs: whole('max-num-seqs', 256),
    maxNumBatchedTokens: whole('max-num-batched-tokens', 2048),
    maxModelLen: 1_048_576,
  }
}

async function fromMetrics(url: string, args: Args, io: Io): Promise<Calibration> {
  httpUrl('metrics', url, 'http://127.0.0.1:8000/metrics')
  const everyMs = args.number('interval-ms', { min: 10, max: 60_000 }) ?? 1000
  const looks = Math.ceil(((args.number('seconds', { min: 0.1, max: 86_400 }) ?? 60) * 1000) / everyMs)
  const bar = progressOf('readings', args, io)
  const totals: Totals[] = []
  try {
    for (let look = 0; look <= looks && !io.stop.aborted; look += 1) {
      bar.draw(look, looks + 1)
      if (look > 0) await sleep(everyMs, undefined, { signal: io.stop }).catch(() => undefined)
      totals.push(await readMetrics(url))
    }
  } finally {
    bar.clear()
  }
  try {
    return {
      profile: {
        name: url,
        description: 'Source: a running engine.',
        costModel: costModelFromTotals(totals),
        limits: limitsOf(args),
      },
      score: null,
    }
  } catch (error) {
    throw error instanceof RangeError
      ? new UsageError(`${error.message}.`, 'Send streaming requests to the engine, or observe longer with --seconds.')
      : error
  }
}

async function readMetrics(url: string): Promise<Totals> {
  const next = 'The engine must be a vLLM that answers GET /metrics.'
  let answer
  try {
    answer = await fetch(url, { signal: AbortSignal.timeout(10_000) })
  } catch (error) {
    throw new UsageError(`${url} is unreachable: ${explainFetchError(error, url)}.`, next)
  }
  if (!answer.ok) throw new UsageError(`${url} answered ${answer.status}.`, next)
  try {
    return readTotals(await answer.text())
  } catch (error) {
    throw error instanceof RangeError ? new UsageError(`${url}: ${error.message}.`, next) : error
  }
}
