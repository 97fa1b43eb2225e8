/**
 * Fake engines on loopback. `node engine.ts PORT…` serves one engine per port (0: any free port) and prints
 * `{"ports":[…]}`.
 * A request sets its own pace in the field `user`: `ttft=MS prefill=MS tokens=N itl=MS pad=BYTES`. `ttft` is the time
 * to the first byte of a stream, `prefill` the duration of a prefill leg, `pad` the size of each token. A whole
 * response takes `ttft + tokens * itl`. `GET /attack-stats` reports what this engine received.
 */
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

export interface EngineStats {
  /** Epoch milliseconds of the first `GET /health` since the start; null: none yet. */
  healthAtMs: number | null
  requests: number
  live: number
  /** `priority` of the last request that had one. */
  priority: unknown
}

interface Pace {
  readonly ttft: number
  readonly prefill: number
  readonly tokens: number
  readonly itl: number
  readonly pad: number
}

interface RequestFields {
  readonly user?: unknown
  readonly stream?: unknown
  readonly priority?: unknown
  readonly kv_transfer_params?: { readonly do_remote_decode?: unknown } | null
}

const METRICS = ['vllm:num_requests_running 0', 'vllm:num_requests_waiting 0', 'vllm:kv_cache_usage_perc 0', ''].join(
  '\n',
)
const USAGE = { prompt_tokens: 16, total_tokens: 20, completion_tokens: 4, prompt_tokens_details: { cached_tokens: 0 } }
const event = (value: object): string =>
  `data: ${JSON.stringify({ id: 'chatcmpl-1', object: 'chat.completion.chunk', created: 1, model: 'fake', ...value })}\n\n`

function paceOf(user: unknown): Pace {
  const pace: Record<string, number> = { ttft: 0, prefill: 0, tokens: 4, itl: 0, pad: 6 }
  for (const [, name, value] of String(user ?? '').matchAll(/(\w+)=(\d+)/g)) pace[name!] = Number(value)
  return pace as unknown as Pace
}

async function answer(request: RequestFields, response: http.ServerResponse): Promise<void> {
  const pace = paceOf(request.user)
  const text = 'token '.repeat(Math.ceil(pace.pad / 6)).slice(0, pace.pad)
  if (request.kv_transfer_params?.do_remote_decode === true) {
    await sleep(pace.prefill)
    const params = {
      do_remote_prefill: true,
      do_remote_decode: false,
      remote_engine_id: 'e',
      remote_block_ids: [1],
      remote_host: '127.0.0.1',
      remote_port: 1,
    }
    return json(response, {
      id: 'chatcmpl-1',
      object: 'chat.completion',
      created: 1,
      model: 'fake',
      choices: [choice('t')],
      usage: USAGE,
      kv_transfer_params: params,
    })
  }
  if (request.stream !== true) {
    await sleep(pace.ttft + pace.tokens * pace.itl)
    return json(response, {
      id: 'chatcmpl-1',
      object: 'chat.completion',
      created: 1,
      model: 'fake',
      choices: [choice(text)],
      usage: USAGE,
    })
  }
  await sleep(pace.ttft)
  response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8' })
  for (let sent = 0; sent < pace.tokens && !response.destroyed; sent++) {
    if (sent > 0 && pace.itl > 0) await sleep(pace.itl)
    const taken = response.write(event({ choices: [{ index: 0, delta: { content: text }, finish_reason: null }] }))
    if (!taken) await takenUp(response)
  }
  response.end(
    `${event({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] })}${event({ choices: [], usage: USAGE })}data: [DONE]\n\n`,
  )
}

const takenUp = (response: http.ServerResponse): Promise<void> =>
  new Promise((resolve) => {
    const done = (): void => {
      response.off('drain', done).off('close', done)
      resolve()
    }
    response.on('drain', done).on('close', done)
  })

const choice = (content: string): object => ({
  index: 0,
  message: { role: 'assistant', content },
  finish_reason: 'stop',
})

function json(response: http.ServerResponse, value: object): void {
  if (response.destroyed) return
  const text = JSON.stringify(value)
  response.writeHead(200, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) }).end(text)
}

function serve(stats: EngineStats): http.RequestListener {
  return (request, response) => {
    if (request.method !== 'POST') {
      if (request.url === '/attack-stats') return json(response, stats)
      if (request.url === '/health') stats.healthAtMs ??= Date.now()
      if (request.url === '/metrics')
        return void response.writeHead(200, { 'content-type': 'text/plain; version=0.0.4' }).end(METRICS)
      return json(response, { status: 'ok' })
    }
    stats.requests++
    stats.live++
    response.once('close', () => stats.live--)
    const parts: Buffer[] = []
    request.on('data', (bytes: Buffer) => parts.push(bytes))
    request.on('end', () => {
      const fields = parsed(Buffer.concat(parts))
      if (fields.priority !== undefined) stats.priority = fields.priority
      void answer(fields, response)
    })
    request.on('error', () => {})
  }
}

function parsed(body: Buffer): RequestFields {
  try {
    return JSON.parse(body.toString('utf8')) as RequestFields
  } catch {
    // A form: no pace can be set in it.
    return {}
  }
}

const ports = await Promise.all(
  process.argv.slice(2).map(
    (port) =>
      new Promise<number>((resolve) => {
        const server = http.createServer(
          { noDelay: true, keepAliveTimeout: 60_000 },
          serve({ healthAtMs: null, requests: 0, live: 0, priority: null }),
        )
        server.listen({ port: Number(port), host: '127.0.0.1', backlog: 4096 }, () =>
          resolve((server.address() as AddressInfo).port),
        )
      }),
  ),
)
console.log(JSON.stringify({ ports }))
