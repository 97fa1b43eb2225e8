/**
 * Opens streams, a few at a time, and reports when all have begun and when all have ended. `fork client.ts PORT COUNT`
 */
import net from 'node:net'

const port = Number(process.argv[2])
const count = Number(process.argv[3])
/** Concurrent connections within a listener's backlog. */
const AT_ONCE = 64
const LAST_CHUNK = '0\r\n\r\n'

let opened = 0
let begun = 0
let closed = 0
let whole = 0

function open(): void {
  if (opened === count) return
  const body = JSON.stringify({
    model: 'fake',
    stream: true,
    messages: [{ role: 'user', content: `stream ${opened++}` }],
  })
  const socket = net.connect({ port, host: '127.0.0.1', noDelay: true })
  let tail = ''
  let hasBegun = false
  socket.write(
    'POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: ' +
      `application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
  )
  socket.on('error', () => socket.destroy())
  socket.on('data', (bytes) => {
    tail = (tail + bytes.toString('latin1')).slice(-2000)
    if (!hasBegun && tail.includes('"content":"token ')) {
      hasBegun = true
      begun++
      open()
      if (begun === count) process.send!({ word: 'open', value: begun })
    }
    if (!tail.endsWith(LAST_CHUNK)) return
    if (hasBegun && tail.includes('data: [DONE]')) whole++
    socket.destroy()
  })
  socket.on('close', () => {
    if (++closed === count) process.send!({ word: 'ended', value: whole })
  })
}

for (let i = 0; i < AT_ONCE; i++) open()
