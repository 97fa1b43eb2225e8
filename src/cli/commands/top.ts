import { BEARER_TEXT, textRule } from '../../config/secret-fields.ts'
import { reportOf } from '../top/draw.ts'
import { type ViewFigures, figuresOf } from '../top/figures.ts'
import { SORTS, type Selection } from '../top/selection.ts'
import { follow, type Gateway, FeedUnavailable } from '../top/follow.ts'
import { viewJson } from '../top/view-json.ts'
import { encodeLine } from '../top/spans.ts'
import { watch } from '../top/watch.ts'
import { Pace } from '../top/pace.ts'
import type { Args, Command, Io } from './command.ts'
import { UsageError } from '../../platform/node/usage-error.ts'
import { asJson, outputOf } from './output-file.ts'
import { gatewayFlag, oneOfFlag } from './common-flags.ts'

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
  const figures = await orUsageError(
    gateway,
    live === null
      ? fetchView(gateway, io.stop)
      : watch(live, { gateway, everyMs, selection: selection, colours }, io.stop),
  )
  // Stopped before the first view arrived.
  if (figures === null) return 1
  if (live === null) {
    const cells = io.terminal?.size().columns ?? Infinity
    for (const line of reportOf(
      { figures: figures, selection: selection, url: gateway.url, skipped: 0, stale: null },
      cells,
    ))
      io.out(encodeLine(line, { cells, colours }))
  }
  write(() => asJson(viewJson(figures, { url: gateway.url, selection: selection })))
  return 0
}

async function orUsageError(gateway: Gateway, figures: Promise<ViewFigures | null>): Promise<ViewFigures | null> {
  try {
    return await figures
  } catch (error) {
    if (!(error instanceof FeedUnavailable)) throw error
    throw new UsageError(`No view from ${gateway.url}: ${error.message}.`, error.next, 1)
  }
}

/** Fetches two views, because a request rate needs two samples. Falls back to one if no second view arrives. */
async function fetchView(gateway: Gateway, stop: AbortSignal): Promise<ViewFigures | null> {
  const pace = new Pace()
  let figures: ViewFigures | null = null
  try {
    for await (const view of follow(gateway, stop)) {
      const isSecond = figures !== null
      pace.record(view)
      figures = figuresOf(view, pace)
      if (isSecond) break
    }
  } catch (error) {
    if (figures === null || !(error instanceof FeedUnavailable)) throw error
  }
  return figures
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
