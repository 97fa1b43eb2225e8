// Reports the TTFT stages of stock vLLM, which has no reporter (docs/ttft.md). Works on Node 20, without dependencies.
//
//   vllm serve MODEL --enable-request-id-headers --enable-per-request-metrics --port 8000
//   node examples/ttft-reporter/reporter.mjs --engine http://127.0.0.1:8000 --listen 127.0.0.1:8100 --report http://127.0.0.1:28886/ttft_report
//
// A proxy between gateway and engine (`url` of the engine is --listen) that forwards every byte. With
// --enable-per-request-metrics a response, or the usage record of a stream, contains the times of its request. They are
// reported under the request's x-request-id. Responses without them are forwarded without a report.
import { createServer, request as ask } from 'node:http'
import { connect } from 'node:net'
import { pathToFileURL } from 'node:url'
import { parseArgs } from 'node:util'

/** Bytes of a response's end that are searched for metrics; the last record is far smaller. */
const KEPT_BYTES = 65_536
const CONNECT_MS = 200

/** Stages in vLLM's per-request metrics, whose TTFT starts at scheduling. null: no metrics. */
export function stagesOf(metrics) {
  const { queue_time_ms: queued, time_to_first_token_ms: computed } = metrics ?? {}
  if (typeof queued !== 'number' || typeof computed !== 'number') return null
  return { prefill_queue_time_ms: queued, prefill_compute_time_ms: computed }
}

/** Last `metrics` object of a response, streamed or not. null: none. */
export function metricsIn(text) {
  const at = text.lastIndexOf('"metrics":{')
  if (at < 0) return null
  const from = at + '"metrics":'.length
  let depth = 0
  for (let index = from; index < text.length; index += 1) {
    if (text[index] === '{') depth += 1
    else if (text[index] === '}' && (depth -= 1) === 0) return JSON.parse(text.slice(from, index + 1))
  }
  return null
}

/** Sends a report on a new connection without reading the response; failures are ignored. */
function report(url, body) {
  const bytes = Buffer.from(JSON.stringify(body))
  const head =
    `POST ${url.pathname} HTTP/1.1\r\nHost: ${url.host}\r\nContent-Type: application/json\r\nContent-Length: ` +
    `${bytes.length}\r\nConnection: close\r\n\r\n`
  const socket = connect({ host: url.hostname, port: Number(url.port || 80) })
  socket.setTimeout(CONNECT_MS, () => socket.destroy())
  socket.on('error', () => socket.destroy())
  socket.on('connect', () => socket.end(Buffer.concat([Buffer.from(head), bytes]), () => socket.destroy()))
}

/** Starts the proxy. Resolves with its server. */
export function startReporter({ engine, host, port, reportUrl }) {
  const server = createServer((incoming, outgoing) => {
    const upstream = ask(
      new URL(incoming.url, engine),
      { method: incoming.method, headers: incoming.headers },
      (answer) => {
        outgoing.writeHead(answer.statusCode, answer.headers)
        let tail = ''
        answer.on('data', (chunk) => {
          tail = (tail + chunk.toString('latin1')).slice(-KEPT_BYTES)
          if (!outgoing.write(chunk)) {
            answer.pause()
            outgoing.once('drain', () => answer.resume())
          }
        })
        answer.on('end', () => {
          outgoing.end()
          const id = incoming.headers['x-request-id']
          const stages = id === undefined || answer.statusCode !== 200 ? null : stagesOf(metricsIn(tail))
          if (stages !== null)
            report(reportUrl, { role: 'pd', request_id: id, emb_cache_transfer_time_ms: 0, ...stages })
        })
        answer.on('error', () => outgoing.destroy())
      },
    )
    upstream.on('error', () => (outgoing.headersSent ? outgoing.destroy() : outgoing.writeHead(502).end()))
    outgoing.on('close', () => upstream.destroy())
    incoming.pipe(upstream)
  })
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen({ host, port }, () => resolve(server))
  })
}

function flags() {
  const { values } = parseArgs({
    options: {
      engine: { type: 'string', default: 'http://127.0.0.1:8000' },
      listen: { type: 'string', default: '127.0.0.1:8100' },
      report: { type: 'string', default: process.env.VLLM_TTFT_REPORT_URL ?? 'http://127.0.0.1:28886/ttft_report' },
    },
  })
  for (const name of ['engine', 'report'])
    if (!URL.canParse(values[name])) throw new Error(`--${name} must be an http URL, got "${values[name]}".`)
  const [, host, port] = /^(.+):(\d+)$/.exec(values.listen) ?? []
  if (host === undefined) throw new Error(`--listen must be HOST:PORT, got "${values.listen}".`)
  return { engine: values.engine, host, port: Number(port), reportUrl: new URL(values.report) }
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  try {
    const wanted = flags()
    await startReporter(wanted)
    console.log(
      `Forwarding http://${wanted.host}:${wanted.port} to ${wanted.engine}, reporting to ${wanted.reportUrl.origin}`,
    )
  } catch (error) {
    console.error(error.message)
    process.exitCode = 1
  }
}
