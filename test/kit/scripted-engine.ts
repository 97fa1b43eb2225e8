/**
 * A fake engine for tests inside workerd, which can neither listen nor share memory with it. The script arrives with
 * the request (`x-script`), and the record is read over HTTP, with responses that wait for events.
 */
import { setImmediate as turn } from 'node:timers/promises'
import type { FakeAnswer } from './fake-answer.ts'
import type { EngineRequest } from './engine-request.ts'
import type { RunReport, Step } from './engine-script.ts'
import { FakeEngine } from './fake-engine.ts'

export interface ScriptedEngine {
  /** Runs the scripts. */
  readonly engineUrl: string
  /** `GET /runs/ID`, `GET /runs/ID/closed`, `GET /runs/ID/arrived`, `GET /runs/ID/go` (opens the next gate). */
  readonly controlUrl: string
  close(): Promise<void>
}

interface Run {
  requests: number
  /** Numbers of the connections that had this run's requests. */
  connections: number[]
  last: EngineRequest | null
  sentBytes: number
  closed: boolean
  readonly arrived: PromiseWithResolvers<void>
  /** Number of opened gates; `news` resolves when one is opened. */
  opened: number
  news: PromiseWithResolvers<void>
  /** Resolves when the connection of the last request closes. */
  ended: PromiseWithResolvers<void>
}

export async function startScriptedEngine(): Promise<ScriptedEngine> {
  const runs = new Runs()
  /** Numbers of connections whose next request is reset. */
  const resets = new Set<number>()
  const engine = await FakeEngine.open({
    '*': (request) => (resets.has(request.connection) ? { raw: '', end: 'reset' } : play(request, runs, resets)),
  })
  const control = await FakeEngine.open({ '*': (request) => report(request, runs) })
  return {
    engineUrl: engine.url,
    controlUrl: control.url,
    close: async () => void (await Promise.all([engine.close(), control.close()])),
  }
}

class Runs {
  readonly #byId = new Map<string, Run>()

  of(id: string): Run {
    let run = this.#byId.get(id)
    if (run === undefined) {
      const [arrived, news, ended] = [0, 1, 2].map(() => Promise.withResolvers<void>())
      run = {
        requests: 0,
        connections: [],
        last: null,
        sentBytes: 0,
        closed: false,
        arrived: arrived!,
        opened: 0,
        news: news!,
        ended: ended!,
      }
      this.#byId.set(id, run)
    }
    return run
  }
}

async function report({ path }: EngineRequest, runs: Runs): Promise<FakeAnswer> {
  const [, , id = '', wait = ''] = path.split('/')
  const run = runs.of(id)
  if (wait === 'go') openGate(run)
  if (wait === 'arrived') await run.arrived.promise
  if (wait === 'closed') await closed(run)
  const { requests, connections, last, sentBytes } = run
  const body: RunReport = {
    requests,
    connections,
    head: last?.head ?? '',
    body: last?.bytes.toString('latin1') ?? '',
    sentBytes,
    closed: run.closed,
  }
  return { body }
}

/** A later request may have opened a connection again. */
async function closed(run: Run): Promise<void> {
  while (!run.closed) await run.ended.promise
}

function play(request: EngineRequest, runs: Runs, resets: Set<number>): FakeAnswer {
  const run = runs.of(request.headers['x-run'] ?? '')
  run.last = request
  run.requests++
  run.connections.push(request.connection)
  run.closed = false
  run.ended = Promise.withResolvers<void>()
  run.arrived.resolve()
  const { ended } = run
  request.socket.once('close', () => {
    if (run.last === request) run.closed = true
    ended.resolve()
  })
  const script = JSON.parse(
    Buffer.from(request.headers['x-script'] ?? 'W10=', 'base64').toString('latin1'),
  ) as readonly Step[]
  if (script.some((step) => 'resetNext' in step)) resets.add(request.connection)
  const end = script.some((step) => 'fin' in step)
    ? 'truncate'
    : script.some((step) => 'reset' in step)
      ? 'reset'
      : 'keep'
  return { raw: '', pieces: piecesOf(script, request, run), end }
}

function openGate(run: Run): void {
  run.opened++
  run.news.resolve()
  run.news = Promise.withResolvers<void>()
}

/** Resolves when the gate with this number, from 1, is open, or the client has left. */
async function gateOpen(number: number, request: EngineRequest, run: Run): Promise<void> {
  while (run.opened < number && request.state === 'open') await Promise.race([run.news.promise, request.ended])
}

async function* piecesOf(
  script: readonly Step[],
  request: EngineRequest,
  run: Run,
): AsyncGenerator<Uint8Array | number> {
  /** Continues when the kernel has accepted the bytes, so a client that stops reading delays the script. */
  const sent = (bytes: Uint8Array): void => void (request.state === 'open' && (run.sentBytes += bytes.length))
  let gates = 0
  for (const step of script) {
    if ('send' in step) {
      const bytes = Buffer.from(step.send, 'latin1')
      yield bytes
      sent(bytes)
    } else if ('slices' in step) {
      for (let at = 0; at < step.slices.length; at += step.of) {
        const bytes = Buffer.from(step.slices.slice(at, at + step.of), 'latin1')
        yield bytes
        sent(bytes)
        await turn()
      }
    } else if ('flood' in step) {
      const piece = Buffer.from(`10000\r\n${'x'.repeat(0x10000)}\r\n`)
      for (let flooded = 0; flooded < step.flood; flooded += 0x10000) {
        yield piece
        sent(piece)
      }
    } else if ('waitMs' in step) yield step.waitMs
    else if ('gate' in step) await gateOpen(++gates, request, run)
    else if ('hang' in step) await request.ended
  }
}
