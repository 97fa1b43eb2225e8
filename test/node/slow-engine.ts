/** An engine whose streams end when the test ends them. */
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface SlowEngine {
  readonly url: string
  /** Streams that wait for their end, oldest first. */
  readonly open: ServerResponse[]
  /** Clients that disconnected before the end. */
  readonly aborted: () => number
  /** Requests of the user `silent`, which get no response. */
  readonly silent: () => number
  finish(): void
  close(): void
}

const event = (text: string) =>
  `data: ${JSON.stringify({ object: 'chat.completion.chunk', choices: [{ index: 0, delta: { content: text } }] })}\n\n`

export async function slowEngine(): Promise<SlowEngine> {
  const open: ServerResponse[] = []
  let aborted = 0
  let silent = 0
  const server = createServer((request, response) => {
    let asked = ''
    request.on('data', (data) => (asked += String(data)))
    if (request.url !== '/v1/chat/completions') {
      response.end('{}')
      return
    }
    response.on('close', () => {
      if (!response.writableFinished) aborted += 1
    })
    request.on('end', () => {
      if (asked.includes('"user":"silent"')) {
        silent += 1
        return
      }
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.write(event('hello'))
      open.push(response)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    open,
    aborted: () => aborted,
    silent: () => silent,
    finish: () => {
      for (const response of open.splice(0)) response.end(`${event(' world')}data: [DONE]\n\n`)
    },
    close: () => {
      server.close()
      server.closeAllConnections()
    },
  }
}
