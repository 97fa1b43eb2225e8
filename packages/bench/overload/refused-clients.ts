/**
 * Clients that ignore Retry-After: `node refused-clients.ts '{"port":1,"perS":1000,"bytes":8192,"same":true}'` sends
 * requests at this rate until SIGTERM, and prints the statuses that it got and the time of the requests.
 */
import http from 'node:http'

interface Plan {
  readonly port: number
  readonly perS: number
  readonly bytes: number
  /** All requests are the same. */
  readonly same: boolean
}

const TICK_MS = 5
const plan = JSON.parse(process.argv[2]!) as Plan
const agent = new http.Agent({ keepAlive: true, maxSockets: 32 })
const statuses: Record<string, number> = {}
const filler = 'lorem ipsum dolor sit amet '.repeat(Math.ceil(plan.bytes / 27)).slice(0, plan.bytes)
let serial = 0
const startedAt = performance.now()

const count = (status: string): void => void (statuses[status] = (statuses[status] ?? 0) + 1)

function send(): void {
  const content = `${plan.same ? '' : serial} ${filler}`
  serial += 1
  const body = JSON.stringify({ model: 'full', stream: true, messages: [{ role: 'user', content }] })
  const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }
  const request = http.request(
    { port: plan.port, host: '127.0.0.1', method: 'POST', path: '/v1/chat/completions', headers, agent },
    (response) => {
      count(String(response.statusCode))
      response.resume()
    },
  )
  request.on('error', () => count('error'))
  request.end(body)
}

setInterval(() => {
  const due = ((performance.now() - startedAt) * plan.perS) / 1000
  while (serial < due) send()
}, TICK_MS)
process.on('SIGTERM', () => {
  console.log(JSON.stringify({ statuses, ms: performance.now() - startedAt }))
  process.exit(0)
})
console.log(JSON.stringify({ port: plan.port }))
