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
  /** Absent: that of the engine. */
  readonly pace?: readonly [ttftMs: number, itlMs: number]
  readonly head?: string
  /** Default: `/v1/chat/completions`. */
  readonly path?: string
  /** Default: true. */
  readonly stream?: boolean
  /** `max_tokens` of the requests. Default: none. */
  readonly maxTokens?: number
  /** Prompts differ from their first word on. Default: they share all but their last words. */
  readonly distinct?: boolean
  /** Time over which the clients start, so that their requests do not arrive together. */
  readonly rampMs?: number
}

const plan = JSON.parse(process.argv[2]!) as Plan
const { path = '/v1/chat/completions', stream = true, distinct = false, rampMs = 0 } = plan
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
  const mark = `${process.pid} ${serial++}`
  const messages = [{ role: 'user', content: distinct ? `${mark} ${filler}` : `${filler} ${mark}` }]
  const body = JSON.stringify({
    model: 'fake',
    stream,
    max_tokens: plan.maxTokens,
    ...(path === '/v1/responses' ? { input: messages } : { messages }),
    ...(plan.pace === undefined ? {} : { user: `pace-${plan.pace[0]}-${plan.pace[1]}` }),
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
  /** Bytes of a message with a length that have not arrived; null: it is chunked, or its head is incomplete. */
  let leftBytes: number | null = null
  const send = (): void => {
    if (stopping) return void socket.end()
    first = 0
    counted = counting
    tail = Buffer.alloc(0)
    leftBytes = null
    sentAt = performance.now()
    socket.write(request())
  }
  socket.on('connect', send)
  socket.on('data', (bytes) => {
    if (tail.length === 0 && !bytes.toString('latin1', 0, 12).endsWith(' 200')) errors++
    if (first === 0 && (!stream || bytes.includes('data:') || tail.length > 0)) first = performance.now()
    leftBytes = leftBytes === null && tail.length === 0 ? leftAfter(bytes) : leftBytes && leftBytes - bytes.length
    tail = Buffer.concat([tail.subarray(-4), bytes.subarray(-5)])
    if (leftBytes === null ? !tail.subarray(-5).equals(END) : leftBytes > 0) return
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

/** Bytes of the body that follow the first read; null: the head has no length. */
function leftAfter(bytes: Buffer): number | null {
  const end = bytes.indexOf('\r\n\r\n')
  const length = end < 0 ? null : /content-length: (\d+)/i.exec(bytes.toString('latin1', 0, end))
  return length === null ? null : Number(length[1]) - (bytes.length - end - 4)
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

for (let i = 0; i < plan.connections; i++) {
  if (rampMs === 0) client()
  else setTimeout(client, (i * rampMs) / plan.connections)
}
if (plan.requests === undefined) {
  setTimeout(startCounting, plan.warmMs!)
  setTimeout(stopCounting, plan.warmMs! + plan.ms!)
}
