/** A pool of a site as cases use it: scripts its engines, asks the gateway, and reads what the gateway shows. */
import type { Route } from '../../../test/kit/fake-answer.ts'
import type { EngineRequest } from '../../../test/kit/engine-request.ts'
import type { FakeEngine } from '../../../test/kit/fake-engine.ts'
import { ADMIN, FIELD_KEY, limitedKey } from './credentials.ts'
import type { Ask, Fixture } from './fixture.ts'

/** Requests until a round robin must have reached an engine. */
const MAX_TRIES = 12
const PAUSE_MS = 100
/** Long, because a busy machine is slow. */
const LIMIT_MS = 60_000
/** Header of clients: the gateway's own calls, such as those to tokenise, lack it. */
export const MARK = 'x-field-case'

export interface ReceivedAnswer {
  /** 0: the connection broke before the head. */
  readonly status: number
  readonly headers: Headers
  readonly text: string
  /** The body ended properly. */
  readonly isWhole: boolean
}

export interface EngineView {
  readonly id: string
  readonly circuit: string
  readonly asleep: boolean
  readonly failures_total: number
  readonly requests: number
  readonly stats: unknown
  readonly [name: string]: unknown
}

export interface Sending {
  /** `limited`: the key of the pool, whose tokens are counted. */
  readonly key?: 'field' | 'limited'
  readonly headers?: Readonly<Record<string, string>>
  readonly signal?: AbortSignal
  /** In place of the path of the fixture. */
  readonly path?: string
}

/** Ids of engines are unique in a cluster. */
export const engineId = (letter: string, model: string): string => `${letter}-${model.replaceAll('_', '-')}`

export class SitePool {
  readonly url: string
  readonly model: string
  readonly engines: ReadonlyMap<string, FakeEngine>
  /** Lines of the gateway's log. */
  readonly log: () => string

  constructor(
    { url, log }: { readonly url: string; readonly log: () => string },
    model: string,
    engines: ReadonlyMap<string, FakeEngine>,
  ) {
    this.url = url
    this.log = log
    this.model = model
    this.engines = engines
  }

  engine(letter: string): FakeEngine {
    return this.engines.get(letter)!
  }

  /** Requests of clients that an engine has had since `script`. */
  posts(letter: string): readonly EngineRequest[] {
    return this.engine(letter).posts.filter(({ headers }) => headers[MARK] !== undefined)
  }

  /** Sets the answers to requests, and clears the list of received ones. */
  script(routes: Readonly<Record<string, Route>>): void {
    for (const [letter, route] of Object.entries(routes)) this.engine(letter).routes['POST *'] = route
    for (const { posts } of this.engines.values()) posts.length = 0
  }

  send(fixture: Fixture, ask: Omit<Ask, 'model'> & { model?: string } = {}, sending: Sending = {}): Promise<Response> {
    const body = fixture.body({ model: this.model, ...ask })
    const { key = 'field', headers = {}, path = fixture.path, signal = AbortSignal.timeout(LIMIT_MS) } = sending
    return fetch(this.url + path, {
      method: 'POST',
      headers: {
        [MARK]: '1',
        authorization: `Bearer ${key === 'field' ? FIELD_KEY : limitedKey(this.model)}`,
        ...(typeof body === 'string' ? { 'content-type': 'application/json' } : {}),
        ...headers,
      },
      body,
      signal,
    })
  }

  /** Sends a request and reads the whole answer. */
  async ask(...request: Parameters<SitePool['send']>): Promise<ReceivedAnswer> {
    const response = await this.send(...request).catch(() => null)
    return response === null ? { status: 0, headers: new Headers(), text: '', isWhole: false } : received(response)
  }

  /** Asks until the engine has had a request, and returns that answer. */
  async askAt(letter: string, ...request: Parameters<SitePool['send']>): Promise<ReceivedAnswer> {
    const until = performance.now() + LIMIT_MS
    for (let tries = 1; tries <= MAX_TRIES || performance.now() < until; tries++) {
      const before = this.posts(letter).length
      const answer = await this.ask(...request)
      if (this.posts(letter).length > before) return answer
      // A silent engine is out of use until it answers a trial of the gateway.
      if (tries > MAX_TRIES) await new Promise((resolve) => setTimeout(resolve, PAUSE_MS))
    }
    throw new Error(`engine ${letter} got none of the requests`)
  }

  async view(letter: string): Promise<EngineView> {
    const { pools } = (await this.admin('/v1/firstlight/fleet')) as {
      readonly pools: readonly { readonly model: string; readonly engines: readonly EngineView[] }[]
    }
    const pool = pools.find(({ model }) => model === this.model)!
    return pool.engines.find(({ id }) => id === engineId(letter, this.model))!
  }

  async failures(letter: string): Promise<number> {
    return (await this.view(letter)).failures_total
  }

  async admin(path: string): Promise<unknown> {
    return (await fetch(this.url + path, { headers: { authorization: `Bearer ${ADMIN}` } })).json()
  }
}

async function received(response: Response): Promise<ReceivedAnswer> {
  const { status, headers } = response
  let text = ''
  try {
    const decoder = new TextDecoder()
    for await (const piece of response.body ?? []) text += decoder.decode(piece as Uint8Array, { stream: true })
  } catch {
    return { status, headers, text, isWhole: false }
  }
  return { status, headers, text, isWhole: true }
}
