import { readInput } from '../../../../src/platform/node/usage-error.ts'
import { overloadOf } from '../replay/overload.ts'
import { type Figures, figuresOf, type Slo } from '../replay/statistics.ts'
import { sloFlags, sloOf } from '../report/slo.ts'
import { spread, type Trace } from '../replay/trace.ts'
import { multiRound, type RoundsWorkload } from '../replay/workloads.ts'
import { drive, type LoadResult } from '../load/drive.ts'
import { readShareGpt } from '../load/sharegpt.ts'
import { legendOf } from '../report/columns.ts'
import { overloadNote, slower } from '../report/overload-note.ts'
import { reportPage } from '../report/page.ts'
import { provenanceOf } from '../report/provenance.ts'
import { type ReplayRow, rowOf } from '../report/replay-row.ts'
import { seriesOf } from '../report/series.ts'
import type { Args, Command, Io } from '../../../../src/cli/commands/command.ts'
import { UsageError } from '../../../../src/platform/node/usage-error.ts'
import { gatewayFlag } from '../../../../src/cli/commands/common-flags.ts'
import { asJson, outputOf } from '../../../../src/cli/commands/output-file.ts'
import { progressFlag, progressOf } from '../../../../src/cli/commands/progress-bar.ts'
import { engineTable, loadColumns } from '../report/replay-table.ts'
import { benchmarkReportFlag, benchmarkReportOf } from './benchmark-report-file.ts'
import { traceIn } from './trace-file.ts'

export const load: Command = {
  name: 'load',
  summary:
    'Send load to a running gateway or engine from a trace or as multi-round conversations, and measure latency.',
  examples: [
    'firstlight load --url http://127.0.0.1:8080 --model sim --num-users 8 --num-rounds 5 --qps 4',
    'firstlight load --url http://127.0.0.1:8080 --model sim --trace conversation.jsonl --limit 500 --speed 2 ' +
      '--json out.json',
  ],
  positionals: null,
  instead: {
    trace: [
      'num-users',
      'num-rounds',
      'qps',
      'shared-system-prompt',
      'user-history-prompt',
      'answer-len',
      'init-user-id',
      'sharegpt',
    ],
  },
  flags: {
    url: { type: 'string', value: 'URL', about: 'Base URL of the gateway. Default: http://127.0.0.1:8080.' },
    model: { type: 'string', value: 'NAME', about: 'The model to request.' },
    key: { type: 'string', value: 'KEY', about: 'Sent as bearer token. Default: FIRSTLIGHT_KEY.' },
    trace: {
      type: 'string',
      value: 'FILE',
      about: 'Trace of any format of `replay`, sent open loop. Prompts are token ids with the prefixes of the trace.',
    },
    speed: { type: 'string', value: 'X', about: 'Multiple of the trace’s own pace. Default: 1.' },
    limit: { type: 'string', value: 'N', about: 'Only the first N requests of the trace.' },
    'closed-loop': { type: 'boolean', about: 'A turn of a session waits for the previous answer.' },
    'num-users': { type: 'string', value: 'N', about: 'Without a trace: number of conversations. Default: 10.' },
    'num-rounds': { type: 'string', value: 'N', about: 'Rounds per conversation. Default: 5.' },
    qps: { type: 'string', value: 'X', about: 'Total requests per second. Default: 2.' },
    'shared-system-prompt': { type: 'string', value: 'N', about: 'Tokens of the shared system prompt. Default: 100.' },
    'user-history-prompt': {
      type: 'string',
      value: 'N',
      about: 'Tokens of each user’s own context. Default: 400.',
    },
    'answer-len': { type: 'string', value: 'N', about: 'Output tokens. Default: 50.' },
    'init-user-id': {
      type: 'string',
      value: 'N',
      about: 'Number of the first user. Users of equal numbers send equal prompts in all runs. Default: 0.',
    },
    sharegpt: {
      type: 'string',
      value: 'FILE',
      about: 'Sizes of questions and answers from a ShareGPT file; answers have at most --answer-len tokens.',
    },
    'max-unfinished-queries': {
      type: 'string',
      value: 'N',
      about: 'Maximum number of requests in flight. Default: no limit.',
    },
    time: { type: 'string', value: 'S', about: 'Start no request after this many seconds. Default: 600.' },
    ...sloFlags,
    json: { type: 'string', value: 'FILE', about: 'Write all figures as JSON.' },
    html: { type: 'string', value: 'FILE', about: 'Write a self-contained HTML report with plots.' },
    ...benchmarkReportFlag,
    ...progressFlag,
  },
  run: runLoad,
}

const QUESTION_TOKENS = 20

const SPEEDS = { min: 1e-3, max: 1e6 }

const RATES = { min: 1e-3, max: 1e5 }

const DEFAULT_QPS = 2

const BLOCK_TOKENS = 16

async function runLoad(args: Args, io: Io): Promise<number> {
  const target = targetOf(args, io)
  const file = args.text('trace')
  const trace = file === null ? conversations(args) : spread(traceIn(file, args), 1)
  const outputs = { json: outputOf(args, 'json'), html: outputOf(args, 'html'), report: benchmarkReportOf(args) }
  const concurrency = args.whole('max-unfinished-queries', { min: 1, max: 1e6 }) ?? Infinity
  const startedAt = Date.now()
  const bar = progressOf('answered', args, io)
  const driven = await drive(trace, {
    target,
    speed: args.number('speed', SPEEDS) ?? 1,
    closedLoop: file === null || args.on('closed-loop'),
    thinkFromStart: file === null,
    concurrency,
    timeMs: (args.number('time', { min: 0.1, max: 86_400 }) ?? 600) * 1000,
    signal: io.stop,
    progress: (done, of, inFlight) => bar.draw(done, of, `${inFlight} in flight`),
  }).finally(() => bar.clear())
  const slo = sloOf(args)
  const rows = rowsOf(trace, driven, slo)
  const answered = rows[0]!['requests']
  if (answered !== 0) io.out([...engineTable(rows), '', ...legendOf(loadColumns(), slo), ''].join('\n'))
  const unsent = driven.unsent === 0 ? '' : `, ${driven.unsent} not sent`
  io.out(
    `${answered} answered, ${driven.result.refused} not${unsent}; sent ` +
      `${driven.lateP99Ms.toFixed(1)} ms late at the 99th percentile`,
  )
  for (const [problem, count] of driven.problems)
    io.out([`${count} x ${problem}`, driven.details.get(problem) ?? []].flat().join(': '))
  const notes = [unsustained(args, file !== null, driven) ?? []].flat()
  for (const note of notes) io.out(note)
  const provenance = provenanceOf(load, args, { trace, profile: `measured at ${target.url}` })
  outputs.json(() => asJson({ name: 'load', provenance, notes, rows, problems: Object.fromEntries(driven.problems) }))
  const series = [seriesOf(driven.result, null)]
  outputs.html(() => reportPage({ rows, series, notes, provenance, slo, from: 'load' }))
  outputs.report(() => ({ result: driven.result, provenance, tool: 'firstlight load', concurrency, startedAt }))
  return driven.problems.size === 0 ? 0 : 1
}

/** Describes a pace that the fleet behind the gateway cannot sustain. null: it sustains it. */
function unsustained(args: Args, hasTrace: boolean, { result }: LoadResult): string | null {
  const overload = overloadOf(result)
  if (overload === null) return null
  const pace = hasTrace
    ? `--speed ${slower(args.number('speed', SPEEDS) ?? 1, overload)}`
    : `--qps ${slower(args.number('qps', RATES) ?? DEFAULT_QPS, overload)}`
  return overloadNote('The fleet', overload, [pace, 'more engines', 'a limit with --max-unfinished-queries'])
}

/** Builds one row for the whole run, then one row per engine. */
function rowsOf(trace: Trace, { result, engines }: LoadResult, slo: Slo): ReplayRow[] {
  const row = (name: string, figures: Figures) => rowOf(name, [figures], { trace: trace.name, load: null })
  const each = engines.map((name, at) => {
    const jobs = result.jobs.filter((job) => job.engine === at)
    return row(name, figuresOf({ ...result, jobs, refused: jobs.filter(({ endedAt }) => endedAt < 0).length }, slo))
  })
  return [row('all', figuresOf(result, slo)), ...each]
}

function targetOf(args: Args, { env }: Io) {
  const model = args.text('model')
  if (model === null)
    throw new UsageError('firstlight load needs --model.', 'Example: --model sim; GET /v1/models lists them.')
  return { url: gatewayFlag(args, 'url'), model, key: args.text('key') ?? env['FIRSTLIGHT_KEY'] ?? null }
}

/**
 * Generates production-stack's multi-round QA: each user sends a request every users/qps seconds; new users join
 * evenly over the first round.
 */
function conversations(args: Args): Trace {
  const count = (flag: string, otherwise: number) => args.whole(flag, { min: 1, max: 1e6 }) ?? otherwise
  const users = count('num-users', 10)
  const firstUser = args.whole('init-user-id', { min: 0, max: 1e6 }) ?? 0
  const rounds = count('num-rounds', 5)
  const answerTokens = count('answer-len', 50)
  const qps = args.number('qps', RATES) ?? DEFAULT_QPS
  return multiRound({
    name: 'multi-round',
    users,
    rounds,
    systemTokens: count('shared-system-prompt', 100),
    historyTokens: count('user-history-prompt', 400),
    questionTokens: QUESTION_TOKENS,
    answerTokens,
    joinMs: 1000 / qps,
    thinkMs: (users / qps) * 1000,
    blockTokens: BLOCK_TOKENS,
    named: true,
    firstUser,
    ...shareGpt(args, { rounds, answerTokens, firstUser, users }),
  })
}

/** Reads `--sharegpt`. A user has the conversation of its number. */
function shareGpt(
  args: Args,
  { firstUser, users, ...sizes }: { readonly [Name in 'rounds' | 'answerTokens' | 'firstUser' | 'users']: number },
): Pick<RoundsWorkload, 'roundsOf'> {
  const file = args.text('sharegpt')
  if (file === null) return {}
  const next = 'Give --sharegpt the ShareGPT.json of production-stack’s benchmarks/multi-round-qa.'
  const text = readInput(file, next).toString('utf8')
  let found: ReturnType<typeof readShareGpt>
  try {
    found = readShareGpt(text, sizes)
  } catch (error) {
    throw new UsageError(`${file}: ${(error as Error).message}.`, next)
  }
  if (found.length < firstUser + users)
    throw new UsageError(
      `${file} has ${found.length} conversations of more than ${2 * sizes.rounds} messages, and users ` +
        `${firstUser} to ${firstUser + users - 1} need ${firstUser + users}.`,
      'Reduce --num-users, --num-rounds or --init-user-id.',
    )
  return { roundsOf: (user) => found[user]! }
}
