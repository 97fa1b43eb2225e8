/**
 * Closed-loop load over raw keep-alive sockets. It measures the first byte of the body and the end of the message.
 * `node load.ts '{"port":1,"connections":64,"bytes":1024,"ms":3000,"warmMs":1000,"pace":[0,0]}'` prints one JSON line.
 */
import net from 'node:net'

interface Plan {
  readonly port: number
  readonly connections: number
  readonly bytes: number
  /** Either times or numbers of requests. */
  readonly ms?: number
  readonly warmMs?: number
  readonly requests?: number
  readonly warmRequests?: number
  readonly pace: readonly [ttftMs: number, itlMs: number]
  readonly head?: string
  /** Default: `/v1/chat/completions`. */
  readonly path?: string
}

const plan = JSON.parse(process.argv[2]!) as Plan
const { path = '/v1/chat/completions' } = plan
const END = Buffer.from('0\r\n\r\n')
const filler = 'lorem ipsum dolor sit amet '.repeat(Math.ceil(plan.bytes / 27)).slice(0, plan.bytes)
let serial = 0
let counting = false
let stopping = false
const ttfbMs: number[] = []
const totalMs: number[] = []
let errors = 0
let ended = 0

function request(): Buffer {
  const messages = [{ role: 'user', content: `${filler} ${process.pid} ${serial++}` }]
  const body = JSON.stringify({
    model: 'fake',
    stream: true,
    ...(path === '/v1/responses' ? { input: messages } : { messages }),
    user: `pace-${plan.pace[0]}-${plan.pace[1]}`,
  })
  return Buffer.from(
    `POST ${path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: ` +
      `application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\n${plan.head ?? ''}\r\n${body}`,
  )
}

function client(): void {
  const socket = net.connect({ port: plan.port, host: '127.0.0.1', noDelay: true })
  let sentAt = 0
  let first = 0
  let counted = false
  let tail: Buffer = Buffer.alloc(0)
  const send = (): void => {
    if (stopping) return void socket.end()
    first = 0
    counted = counting
    tail = Buffer.alloc(0)
    sentAt = performance.now()
    socket.write(request())
  }
  socket.on('connect', send)
  socket.on('data', (bytes) => {
    if (first === 0 && (bytes.includes('data:') || tail.length > 0)) first = performance.now()
    tail = Buffer.concat([tail.subarray(-4), bytes.subarray(-5)])
    if (!tail.subarray(-5).equals(END)) return
    // Between two numbers of ended requests, all that ended count.
    if (plan.requests === undefined ? counted : counting) {
      ttfbMs.push(first - sentAt)
      totalMs.push(performance.now() - sentAt)
    }
    endedOne()
    send()
  })
  socket.on('error', () => errors++)
}

const percentile = (values: number[], share: number): number | null =>
  values.length === 0
    ? null
    : values.sort((a, b) => a - b)[Math.min(values.length - 1, Math.floor(values.length * share))]!

function endedOne(): void {
  ended++
  if (plan.requests === undefined || stopping) return
  if (ended === plan.warmRequests) startCounting()
  else if (ended === plan.warmRequests! + plan.requests) stopCounting()
}

function startCounting(): void {
  counting = true
  process.send?.('counting')
}

function stopCounting(): void {
  counting = false
  process.send?.('counted')
  stopping = true
  console.log(
    JSON.stringify({
      requests: totalMs.length,
      errors,
      ttfb_ms_p50: percentile(ttfbMs, 0.5),
      ttfb_ms_p99: percentile(ttfbMs, 0.99),
      total_ms_p50: percentile(totalMs, 0.5),
    }),
  )
  setTimeout(() => process.exit(0), 200)
}

for (let i = 0; i < plan.connections; i++) client()
if (plan.requests === undefined) {
  setTimeout(startCounting, plan.warmMs!)
  setTimeout(stopCounting, plan.warmMs! + plan.ms!)
}
