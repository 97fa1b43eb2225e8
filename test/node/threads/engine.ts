/** Engines `/a` and `/b` at one address: the test ends streams, and responses are stored. */
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface Engine {
  readonly url: string
  /** Names of the engines that got a request, in order. */
  readonly served: readonly string[]
  /** Number of health checks. */
  readonly probes: number
  finish(): void
  close(): void
}

const event = (text: string): string =>
  `data: ${JSON.stringify({ object: 'chat.completion.chunk', choices: [{ index: 0, delta: { content: text } }] })}\n\n`
const PLAIN = JSON.stringify({
  object: 'chat.completion',
  choices: [{ index: 0, message: { role: 'assistant', content: 'hello' } }],
  usage: { prompt_tokens: 4, completion_tokens: 1, total_tokens: 5 },
})
const STORED = JSON.stringify({
  id: 'resp_1',
  object: 'response',
  status: 'completed',
  output: [],
  usage: { input_tokens: 4, output_tokens: 1, total_tokens: 5 },
})

export async function openEngine(): Promise<Engine> {
  const open: ServerResponse[] = []
  const served: string[] = []
  let probes = 0
  const server = createServer(async (request, response) => {
    let body = ''
    for await (const bytes of request) body += String(bytes)
    const [, name, ...path] = request.url!.split('/')
    const at = path.join('/')
    if (at === 'health') probes += 1
    response.setHeader('content-type', 'application/json')
    if (at.startsWith('v1/responses')) return response.end(STORED)
    if (at !== 'v1/chat/completions') return response.end('{}')
    served.push(name!)
    if (!body.includes('"stream":true')) return response.end(PLAIN)
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.write(event('hello'))
    return open.push(response)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    served,
    get probes() {
      return probes
    },
    finish: () => {
      for (const response of open.splice(0)) response.end(`${event(' world')}data: [DONE]\n\n`)
    },
    close: () => {
      server.close()
      server.closeAllConnections()
    },
  }
}
