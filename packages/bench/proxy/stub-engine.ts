/**
 * The cheapest engine with HTTP and SSE, so that the gateway dominates the measurement: it parses heads itself on raw
 * sockets. `node stub-engine.ts PORT [ENGINES]`: further engines listen on free ports. The pace is in the prompt's
 * `user` field, or what `GET /pace/TTFT_MS/ITL_MS/TOKENS` set last.
 */
import net from 'node:net'
import { stubStreamOf, TOKENS, type StubStream } from './stub-streams.ts'

const HEAD = Buffer.from(
  'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n',
)
const PLAIN = '{"status":"ok"}'
const MODELS = '{"object":"list","data":[{"id":"fake","object":"model","owned_by":"stub","max_model_len":1048576}]}'
const COMPLETE =
  '{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"fake","choices":[{"index":0,"message":' +
  `{"role":"assistant","content":"${'token '.repeat(TOKENS)}"},"finish_reason":"length"}],` +
  '"usage":{"prompt_tokens":256,"total_tokens":272,"completion_tokens":16,"prompt_tokens_details":{"cached_tokens":0}}}'

interface Pace {
  readonly ttftMs: number
  readonly itlMs: number
  /** Of each stream. */
  readonly tokens: number
}

/** What requests without an own pace get. */
let enginePace: Pace = { ttftMs: 0, itlMs: 0, tokens: TOKENS }

const json = (text: string): string =>
  `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${Buffer.byteLength(text)}\r\n\r\n${text}`

function stream(socket: net.Socket, { opening, token, lastToken }: StubStream, end: Buffer, pace: Pace): void {
  if (pace.ttftMs === 0 && pace.itlMs === 0) {
    socket.write(HEAD)
    if (opening.length > 0) socket.write(opening)
    for (let i = 1; i < pace.tokens; i++) socket.write(token)
    socket.write(lastToken)
    socket.write(end)
    return
  }
  socket.write(HEAD)
  if (opening.length > 0) socket.write(opening)
  let sent = 0
  const next = (): void => {
    if (socket.destroyed) return
    if (sent++ === pace.tokens) return void socket.write(end)
    socket.write(sent === pace.tokens ? lastToken : token)
    setTimeout(next, pace.itlMs)
  }
  setTimeout(next, pace.ttftMs)
}

/** For gateways that request tokens first: one for every four bytes. */
function rendered(bytes: number): string {
  const ids = JSON.stringify(Array.from({ length: bytes >> 2 }, (_, at) => (at * 7919) % 50_000))
  return json(`{"request_id":"r","model":"fake","count":${bytes >> 2},"token_ids":${ids},"tokens":${ids}}`)
}

/** Last chunk of a body. Bodies of the benchmarks do not contain it. */
const LAST_CHUNK = '\r\n0\r\n\r\n'

/** Bytes of a body, with the framing of chunks. null: its end has not come. */
function bodyLength(head: string, buffered: Buffer, from: number): number | null {
  if (!/transfer-encoding: chunked/i.test(head)) return Number(/content-length: (\d+)/i.exec(head)?.[1] ?? 0)
  const end = buffered.indexOf(LAST_CHUNK, Math.max(from, buffered.length - 70_000 - LAST_CHUNK.length))
  return end < 0 ? null : end + LAST_CHUNK.length - from
}

function answerTo(head: string): string {
  const [, ttftMs, itlMs, tokens] = /^GET \/pace\/(\d+)\/(\d+)\/(\d+) /.exec(head) ?? []
  if (tokens !== undefined) enginePace = { ttftMs: Number(ttftMs), itlMs: Number(itlMs), tokens: Number(tokens) }
  return head.startsWith('GET /v1/models') ? MODELS : PLAIN
}

function serve(socket: net.Socket): void {
  let buffered: Buffer = Buffer.alloc(0)
  socket.on('error', () => {})
  socket.on('data', (bytes) => {
    buffered = buffered.length === 0 ? bytes : Buffer.concat([buffered, bytes])
    for (;;) {
      const end = buffered.indexOf('\r\n\r\n')
      if (end < 0) return
      const head = buffered.toString('latin1', 0, end)
      const length = bodyLength(head, buffered, end + 4)
      if (length === null || buffered.length < end + 4 + length) return
      const body = buffered.subarray(end + 4, end + 4 + length)
      buffered = buffered.subarray(end + 4 + length)
      if (!head.startsWith('POST')) {
        socket.write(json(answerTo(head)))
        continue
      }
      if (head.startsWith('POST /v1/chat/completions/render') || head.startsWith('POST /tokenize')) {
        socket.write(rendered(body.length))
        continue
      }
      // Some gateways reorder the fields.
      const ends =
        body.length < 8192
          ? body.toString('latin1')
          : body.toString('latin1', 0, 200) + body.toString('latin1', body.length - 200)
      if (body.length < 8192 && /"stream":\s*false/.test(ends)) {
        socket.write(json(COMPLETE))
        continue
      }
      const [, ttftMs, itlMs] = /"user":\s*"pace-(\d+)-(\d+)"/.exec(ends) ?? []
      const own = ttftMs === undefined ? {} : { ttftMs: Number(ttftMs), itlMs: Number(itlMs) }
      const answer = stubStreamOf(/^POST (\S+)/.exec(head)![1]!)
      const last = body.includes('"include_usage":true') ? answer.endWithUsage : answer.end
      stream(socket, answer, last, { ...enginePace, ...own })
    }
  })
}

async function listen(port: number): Promise<number> {
  const server = net.createServer({ noDelay: true }, serve)
  await new Promise<void>((done) => void server.listen(port, '127.0.0.1', done))
  return (server.address() as net.AddressInfo).port
}

const [port = '0', engines = '1'] = process.argv.slice(2)
const ports = [await listen(Number(port))]
while (ports.length < Number(engines)) ports.push(await listen(0))
console.log(JSON.stringify({ port: ports[0], ports }))
