import { connect } from 'node:net'
import type { ReportSink } from '../ttft-reporter.ts'

const CONNECT_MS = 200

/** Posts reports as the patched engines do: one connection each, HTTP/1.1, closed without reading the response. */
export function rawReports(url: URL): ReportSink {
  const port = Number(url.port || 80)
  return (report) => {
    const body = Buffer.from(JSON.stringify(report))
    const head =
      `POST ${url.pathname} HTTP/1.1\r\nHost: ${url.host}\r\nContent-Type: application/json\r\nContent-Length: ` +
      `${body.length}\r\nConnection: close\r\n\r\n`
    const socket = connect({ host: url.hostname, port })
    socket.setTimeout(CONNECT_MS, () => socket.destroy())
    socket.on('error', () => socket.destroy())
    socket.on('connect', () => socket.end(Buffer.concat([Buffer.from(head), body]), () => socket.destroy()))
  }
}
