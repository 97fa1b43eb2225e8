/** One port for several engines: the data-parallel ranks of a server, numbered and balanced as vLLM does it. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type Answer, type Incoming, json } from '../answer.ts'
import type { SimulatedEngine } from '../engine.ts'
import { isInference } from '../http-api/routes.ts'
import { closeServer, listen, readIncoming, send } from './engine-host.ts'

/** @testing */
export interface RankHostOptions {
  /** Number of the first rank, as in metrics. Default: 0 */
  readonly first?: number
  /** Numbers in the header: of the Python front end (`local`, default) or of the Rust front end. */
  readonly numbering?: 'local' | 'global'
  /** A proxy drops the header: ranks take turns. Default: false */
  readonly ignoresHeader?: boolean
}

const HEADER = 'x-data-parallel-rank'

/** @testing */
export class RankHost {
  /** Ranks of the server; a test may change them. */
  ranks: readonly SimulatedEngine[]
  /** Requests by path, those of probes included. */
  readonly calls: string[] = []
  /** Inference requests with the rank in their header; null: none. */
  readonly chosen: { readonly path: string; readonly rank: string | null }[] = []
  readonly #options: RankHostOptions
  #server: Server | null = null
  #turn = 0
  port = 0

  private constructor(ranks: readonly SimulatedEngine[], options: RankHostOptions) {
    this.ranks = ranks
    this.#options = options
  }

  static async open(ranks: readonly SimulatedEngine[], options: RankHostOptions = {}): Promise<RankHost> {
    const host = new RankHost(ranks, options)
    await host.listen()
    return host
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`
  }

  /** Listens, again at the same port. */
  async listen(): Promise<void> {
    const server = createServer((request, response) => void this.#answer(request, response))
    this.#server = server
    await listen(server, '127.0.0.1', this.port)
    this.port = (server.address() as AddressInfo).port
  }

  async close(): Promise<void> {
    const server = this.#server
    this.#server = null
    if (server !== null) await closeServer(server)
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const gone = new AbortController()
    response.on('close', () => {
      if (!response.writableFinished) gone.abort()
    })
    try {
      const incoming = await readIncoming(request, gone.signal)
      this.calls.push(`${incoming.method} ${incoming.path}`)
      send(response, incoming.path === '/metrics' ? await this.#metrics(incoming) : await this.#handle(incoming))
    } catch {
      // The client disconnected while its body was read.
      request.socket.destroy()
    }
  }

  #handle(incoming: Incoming): ReturnType<SimulatedEngine['handle']> | Answer {
    if (!isInference(incoming)) return this.ranks[0]!.handle(incoming)
    const header = incoming.headers.get(HEADER) ?? null
    this.chosen.push({ path: incoming.path, rank: header })
    const { first = 0, numbering = 'local', ignoresHeader = false } = this.#options
    if (header === null || ignoresHeader) return this.ranks[this.#turn++ % this.ranks.length]!.handle(incoming)
    const rank = this.ranks[Number(header) - (numbering === 'global' ? first : 0)]
    return rank?.handle(incoming) ?? this.#refusal(header)
  }

  #refusal(header: string): Answer {
    const { first = 0, numbering = 'local' } = this.#options
    const count = this.ranks.length
    const message =
      numbering === 'local'
        ? `data_parallel_rank ${header} is out of range [0, ${count}).`
        : `data_parallel_rank ${header} is not connected; connected_ranks: [${first}..${first + count - 1}]`
    return json(400, { error: { message, type: 'BadRequestError', param: null, code: 400 } })
  }

  /** Metrics of all ranks. `num_gpu_blocks` is the sum over them, repeated for each, as vLLM exports it. */
  async #metrics(incoming: Incoming): Promise<Answer> {
    const { first = 0 } = this.#options
    const texts = await Promise.all(
      this.ranks.map(async (rank, at) => {
        const answer = await rank.handle(incoming)
        if ('broken' in answer || typeof answer.body !== 'string') return ''
        return answer.body
          .replaceAll('engine="0"', `engine="${first + at}"`)
          .replaceAll(
            /num_gpu_blocks="(\d+)"/g,
            (_, blocks) => `num_gpu_blocks="${Number(blocks) * this.ranks.length}"`,
          )
      }),
    )
    return { status: 200, headers: { 'content-type': 'text/plain; version=1.0.0' }, body: texts.join('') }
  }
}
