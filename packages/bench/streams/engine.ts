/** Engines that send one token, pause, and continue on a message. `fork engine.ts COUNT` */
import net from 'node:net'
import type { AddressInfo } from 'node:net'

const HEAD = 'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n'
const chunk = (text: string): string => `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`
const BEGIN = Buffer.from(
  HEAD +
    chunk(
      'data: ' +
        '{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"fake","choices":[{"index":0,"delta":{"content":"token ' +
        '"},"finish_reason":null}]}\n\n',
    ),
)
const END = Buffer.from(
  chunk(
    'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"fake","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n',
  ) +
    chunk(
      'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"fake","choices":[],"usage":{"prompt_tokens":20,"total_tokens":21,"completion_tokens":1}}\n\n',
    ) +
    chunk('data: [DONE]\n\n') +
    '0\r\n\r\n',
)
const PLAIN = Buffer.from('HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 0\r\n\r\n')
const waiting = new Set<net.Socket>()

function serve(socket: net.Socket): void {
  let text = ''
  socket.setNoDelay(true)
  socket.on('error', () => socket.destroy())
  socket.on('close', () => waiting.delete(socket))
  socket.on('data', (bytes) => {
    text += bytes.toString('latin1')
    const end = text.indexOf('\r\n\r\n')
    if (end < 0 || text.length < end + 4 + Number(/content-length: (\d+)/i.exec(text)?.[1] ?? 0)) return
    const post = text.startsWith('POST')
    text = ''
    socket.write(post ? BEGIN : PLAIN)
    if (post) waiting.add(socket)
  })
}

const servers = Array.from({ length: Number(process.argv[2]) }, () => net.createServer(serve))
await Promise.all(
  servers.map(
    (server) => new Promise<void>((resolve) => server.listen({ port: 0, host: '127.0.0.1', backlog: 4096 }, resolve)),
  ),
)
process.send!({ word: 'listening', value: servers.map((server) => (server.address() as AddressInfo).port) })
process.on('message', () => {
  for (const socket of waiting) socket.write(END)
  waiting.clear()
})
