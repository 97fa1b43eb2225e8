/** Updates of the weights of eight engines under a hundred streams, in each mode of the pause. */
import { PAUSE_MODES, type PauseMode } from '../../../src/engines/engine-type.ts'
import { parseConfig } from '../../../src/config/parse.ts'
import { startGateway, type RunningGateway } from '../../../src/platform/node/start-gateway.ts'
import { VersionedEngine } from './versioned-engine.ts'

const MODEL = 'sim'
const ADMIN = 'ranks-admin-key-of-no-use-elsewhere'
const ENGINES = 8
const STREAMS = 100
const TOKENS = 40

export type WeightUpdateRow = {
  readonly mode: PauseMode
  /** Answers that began before the end of the update or during it. */
  readonly answers: number
  readonly complete: number
  /** Ended by an error event, or refused. */
  readonly ended: number
  /** Answers with tokens of two versions. */
  readonly mixed: number
  readonly new_version: number
}

/** Rows by mode. */
export async function weightUpdates(): Promise<readonly WeightUpdateRow[]> {
  const engines = await Promise.all(Array.from({ length: ENGINES }, () => VersionedEngine.open()))
  const gateway = await open(engines)
  try {
    const rows: WeightUpdateRow[] = []
    for (const mode of PAUSE_MODES) rows.push(await update(mode, engines, gateway.url))
    return rows
  } finally {
    await gateway.stop(AbortSignal.timeout(1_000))
    for (const engine of engines) engine.close()
  }
}

const silent = (): void => {}

function open(engines: readonly VersionedEngine[]): Promise<RunningGateway> {
  const pool = {
    model: MODEL,
    queue: { max_requests: 1_000, no_engine_wait_ms: 60_000 },
    engines: engines.map(({ url }, at) => ({ id: `e${at}`, url, type: 'vllm' })),
  }
  const config = parseConfig(
    { listen: '127.0.0.1:0', open: true, admin: { secret: ADMIN }, clusters: [{ id: 'c', pools: [pool] }] },
    {},
    { defaultVersion: 1, defaultObserveShare: 1, listens: true },
  )
  return startGateway(config, { debug: silent, info: silent, warn: silent, error: silent })
}

async function update(mode: PauseMode, engines: readonly VersionedEngine[], url: string): Promise<WeightUpdateRow> {
  const over = new AbortController()
  const texts: string[] = []
  /** A client that sends the next request when it has its answer. */
  const client = async (): Promise<void> => {
    do texts.push(await ask(url))
    while (!over.signal.aborted)
  }
  const clients = Array.from({ length: STREAMS }, client)
  while (engines.reduce((sum, { running }) => sum + running, 0) < STREAMS / 2) await pause(5)
  await command(url, 'pause', { mode })
  for (const engine of engines) engine.version += 1
  await command(url, 'resume')
  over.abort()
  await Promise.all(clients)
  const complete = texts.filter((text) => text.includes('[DONE]') && !text.includes('"abort"'))
  return {
    mode,
    answers: texts.length,
    complete: complete.length,
    ended: texts.length - complete.length,
    mixed: texts.filter((text) => new Set(text.match(/v\d+ /g)).size > 1).length,
    new_version: complete.filter((text) => text.includes(`v${engines[0]!.version} `)).length,
  }
}

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

/** Text of a stream; what came of it if it is truncated. */
async function ask(url: string): Promise<string> {
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      model: MODEL,
      messages: [{ role: 'user', content: 'hi' }],
      stream: true,
      max_tokens: TOKENS,
    }),
  })
  let text = ''
  try {
    for await (const piece of response.body!.pipeThrough(new TextDecoderStream())) text += piece
  } catch {
    // A truncated stream ends with its connection.
  }
  return text
}

async function command(url: string, name: 'pause' | 'resume', options: object = {}): Promise<void> {
  const response = await fetch(`${url}/v1/firstlight/pools/${MODEL}/${name}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${ADMIN}` },
    body: JSON.stringify(options),
  })
  if (response.status !== 200) throw new Error(`${name}: ${response.status} ${await response.text()}`)
}
