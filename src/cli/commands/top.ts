import { BEARER_TEXT, textRule } from '../../config/fields.ts'
import { reportOf, type ViewFigures, figuresOf, SORTS, type Selection } from '../top/draw.ts'
import { follow, type Gateway, FeedUnavailable, viewJson } from '../top/follow.ts'
import { painted } from '../top/table.ts'
import { watch, Pace } from '../top/watch.ts'
import { UsageError, type Args, type Command, type Io } from './command.ts'
import { asJson, outputOf, gatewayFlag, oneOfFlag } from './args.ts'

export const top: Command = {
  name: 'top',
  summary: 'Show the fleet of a running gateway in the terminal.',
  examples: [
    'firstlight top',
    'firstlight top --url https://edge.example.com --sort queue',
    'firstlight top --once --only unhealthy --json fleet.json',
  ],
  positionals: null,
  instead: { once: ['every-s'] },
  flags: {
    url: { type: 'string', value: 'URL', about: 'Base URL of the gateway. Default: http://127.0.0.1:8080.' },
    key: { type: 'string', value: 'KEY', about: 'Its admin key. Default: FIRSTLIGHT_ADMIN_KEY.' },
    sort: { type: 'string', value: 'BY', about: `${SORTS.join(', ')}. Default: state, problems first.` },
    only: {
      type: 'string',
      value: 'WORDS',
      about: 'Only engines whose name, cluster, model, role or state contains all these words.',
    },
    'every-s': {
      type: 'string',
      value: 'N',
      about: 'Refresh interval. Default: as the gateway produces views, every 1 s, or every 2 s from 65 engines on.',
    },
    once: { type: 'boolean', about: 'Print once and exit. Default if standard output is not a terminal.' },
    json: { type: 'string', value: 'FILE', about: 'Also write the last view as JSON.' },
  },
  run: runTop,
}

async function runTop(args: Args, io: Io): Promise<number> {
  const gateway = { url: gatewayFlag(args, 'url'), key: keyOf(args, io) }
  const selection: Selection = {
    sort: oneOfFlag(args, 'sort', SORTS, 'queue') ?? 'state',
    reversed: false,
    only: args.text('only') ?? '',
  }
  const everyMs = (args.number('every-s', { min: 1, max: 86_400 }) ?? 1) * 1000
  const write = outputOf(args, 'json')
  // https://no-color.org
  const colours = io.terminal !== undefined && (io.env['NO_COLOR'] ?? '') === ''
  const live = io.terminal === undefined || args.on('once') ? null : io.terminal
  const seen = await orSay(
    gateway,
    live === null
      ? fetchView(gateway, io.stop)
      : watch(live, { gateway, everyMs, selection: selection, colours }, io.stop),
  )
  // Stopped before the first view arrived.
  if (seen === null) return 1
  if (live === null) {
    const cells = io.terminal?.size().columns ?? Infinity
    for (const line of reportOf(
      { figures: seen, selection: selection, url: gateway.url, skipped: 0, stale: null },
      cells,
    ))
      io.out(painted(line, { cells, colours }))
  }
  write(() => asJson(viewJson(seen, { url: gateway.url, selection: selection })))
  return 0
}

async function orSay(gateway: Gateway, seen: Promise<ViewFigures | null>): Promise<ViewFigures | null> {
  try {
    return await seen
  } catch (error) {
    if (!(error instanceof FeedUnavailable)) throw error
    throw new UsageError(`No view from ${gateway.url}: ${error.message}.`, error.next, 1)
  }
}

/** Fetches two views, because a request rate needs two samples. Falls back to one if no second view arrives. */
async function fetchView(gateway: Gateway, stop: AbortSignal): Promise<ViewFigures | null> {
  const pace = new Pace()
  let seen: ViewFigures | null = null
  try {
    for await (const view of follow(gateway, stop)) {
      const isSecond = seen !== null
      pace.record(view)
      seen = figuresOf(view, pace)
      if (isSecond) break
    }
  } catch (error) {
    if (seen === null || !(error instanceof FeedUnavailable)) throw error
  }
  return seen
}

function keyOf(args: Args, { env }: Io): string | null {
  const key = args.text('key') ?? env['FIRSTLIGHT_ADMIN_KEY'] ?? ''
  if (key !== '' && !BEARER_TEXT.test(key))
    throw new UsageError(
      `The admin key must be ${textRule(BEARER_TEXT)}.`,
      'Check it for a line break or an extra quote.',
    )
  return key === '' ? null : key
}
