/**
 * `createGateway` with ports of your own: here the ports of Node, with another log.
 * Run: `ENGINE_URL=http://127.0.0.1:8000 MODEL=llama-3-8b node embed-ports.ts` (Node 22.18 or newer), beside `npm install firstlight`.
 */
import { createGateway, parseConfigText, type Log } from 'firstlight'
import { nodePorts } from 'firstlight/node'

const { ENGINE_URL, MODEL } = process.env
const text = `
open: true
clusters:
  - id: local
    pools:
      - model: ${MODEL}
        engines: [{ id: a, url: ${ENGINE_URL} }]
`
const config = parseConfigText(text, process.env, { defaultVersion: 1, defaultObserveShare: 1, listens: false })

const lines: string[] = []
const write = (event: string): void => void lines.push(event)
const log: Log = { debug: write, info: write, warn: write, error: write }

const ports = nodePorts(config, log)
const gateway = createGateway(config, ports)
await gateway.probe()

const pending: Promise<unknown>[] = []
const scope = { background: (work: Promise<unknown>) => void pending.push(work), client: null, remoteAddress: null }
const body = JSON.stringify({ model: MODEL, messages: [{ role: 'user', content: 'Hello' }] })
const request = new Request('http://gateway/v1/chat/completions', {
  method: 'POST',
  headers: { 'content-type': 'application/json' },
  body,
})
const response = await gateway.fetch(request, scope)
console.log(response.status, await response.text())
await Promise.all(pending)
console.log(lines.join(' '))
await ports.close()
