/**
 * The cheapest engine with HTTP and SSE, so that the gateway dominates the measurement: it parses heads itself on raw
 * sockets. `node stub-engine.ts PORT`; the pace is `?ttft_ms=&itl_ms=` in the query of the request path.
 */
import net from 'node:net'
import { stubStreamOf, TOKENS, type StubStream } from './stub-streams.ts'

const HEAD = Buffer.from(
  'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n',
)
const PLAIN = '{"status":"ok"}'

interface Pace {
  readonly ttftMs: number
  readonly itlMs: number
}

function stream(socket: net.Socket, { opening, token, lastToken }: StubStream, end: Buffer, pace: Pace): void {
  if (pace.ttftMs === 0 && pace.itlMs === 0) {
    socket.write(HEAD)
    if (opening.length > 0) socket.write(opening)
    for (let i = 1; i < TOKENS; i++) socket.write(token)
    socket.write(lastToken)
    socket.write(end)
    return
  }
  socket.write(HEAD)
  if (opening.length > 0) socket.write(opening)
  let sent = 0
  const next = (): void => {
    if (socket.destroyed) return
    if (sent++ === TOKENS) return void socket.write(end)
    socket.write(sent === TOKENS ? lastToken : token)
    setTimeout(next, pace.itlMs)
  }
  setTimeout(next, pace.ttftMs)
}

/** For gateways that request tokens first: one for every four bytes. */
function rendered(bytes: number): string {
  const ids = JSON.stringify(Array.from({ length: bytes >> 2 }, (_, at) => (at * 7919) % 50_000))
  const text = `{"request_id":"r","model":"fake","count":${bytes >> 2},"token_ids":${ids},"tokens":${ids}}`
  return `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${text.length}\r\n\r\n${text}`
}

/** Last chunk of a body. Bodies of the benchmarks do not contain it. */
const LAST_CHUNK = '\r\n0\r\n\r\n'

/** Bytes of a body, with the framing of chunks. null: its end has not come. */
function bodyLength(head: string, buffered: Buffer, from: number): number | null {
  if (!/transfer-encoding: chunked/i.test(head)) return Number(/content-length: (\d+)/i.exec(head)?.[1] ?? 0)
  const end = buffered.indexOf(LAST_CHUNK, Math.max(from, buffered.length - 70_000 - LAST_CHUNK.length))
  return end < 0 ? null : end + LAST_CHUNK.length - from
}

const server = net.createServer({ noDelay: true }, (socket) => {
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
        socket.write(
          `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${PLAIN.length}\r\n\r\n${PLAIN}`,
        )
        continue
      }
      if (head.startsWith('POST /v1/chat/completions/render') || head.startsWith('POST /tokenize')) {
        socket.write(rendered(body.length))
        continue
      }
      // The pace is in the prompt's user field, which every gateway forwards; some reorder the fields.
      const ends =
        body.length < 8192
          ? body.toString('latin1')
          : body.toString('latin1', 0, 200) + body.toString('latin1', body.length - 200)
      const pace = /"user":\s*"pace-(\d+)-(\d+)"/.exec(ends)
      const answer = stubStreamOf(/^POST (\S+)/.exec(head)![1]!)
      const last = body.includes('"include_usage":true') ? answer.endWithUsage : answer.end
      stream(socket, answer, last, { ttftMs: Number(pace?.[1] ?? 0), itlMs: Number(pace?.[2] ?? 0) })
    }
  })
})
server.listen(Number(process.argv[2] ?? 0), '127.0.0.1', () => {
  console.log(JSON.stringify({ port: (server.address() as net.AddressInfo).port }))
})
