/** Time in which the gateway's process did not run is not counted as an engine's delay. */
import { Worker } from 'node:worker_threads'
import { once } from 'node:events'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { ownRequest } from '../../../src/origin/own-request.ts'
import { socketOrigin } from '../../../src/platform/node/http1/origin.ts'
import type { OriginAnswer } from '../../../src/ports/origin.ts'

/** Responds to every request, on a thread that runs while this one is blocked. */
const ENGINE = `
const net = require('node:net')
const { parentPort } = require('node:worker_threads')
const server = net.createServer((socket) => {
  socket.on('error', () => {})
  socket.on('data', (bytes) => {
    if (String(bytes).startsWith('POST /silent')) return
    socket.write('HTTP/1.1 200 OK\\r\\ncontent-length: 2\\r\\n\\r\\nok')
  })
})
server.listen(0, '127.0.0.1', () => parentPort.postMessage(server.address().port))`

const LIMIT_MS = 200
const STALL_MS = 10 * LIMIT_MS
let engine: Worker
let url: string
let origin: ReturnType<typeof socketOrigin>

beforeAll(async () => {
  engine = new Worker(ENGINE, { eval: true })
  const [port] = (await once(engine, 'message')) as [number]
  url = `http://127.0.0.1:${port}`
})
afterAll(() => engine.terminate())
afterEach(() => origin.close())

/** Blocks the event loop. */
const stall = (): void => void Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, STALL_MS)

function ask(path: string, limits: { readonly connectMs: number; readonly limitMs: number }): Promise<OriginAnswer> {
  origin = socketOrigin()
  return origin.send(ownRequest({ id: 'e', url, headers: [], binding: null }, path, { method: 'POST', ...limits }))
}

describe('a process that stood still longer than the time limit', () => {
  it('a process that stood still longer than the time limit uses the connection that was made meanwhile', async () => {
    const answer = ask('/v1', { connectMs: LIMIT_MS, limitMs: 60_000 })
    stall()
    expect((await answer).status).toBe(200)
  })

  it('a process that stood still longer than the time limit uses the response that arrived meanwhile', async () => {
    const answer = ask('/v1', { connectMs: 60_000, limitMs: LIMIT_MS })
    stall()
    const { status } = await answer
    expect(status).toBe(200)
  })

  it('a process that stood still longer than the time limit still times out on an engine that stays silent afterwards', async () => {
    const answer = ask('/silent', { connectMs: 60_000, limitMs: LIMIT_MS })
    stall()
    await expect(answer).rejects.toMatchObject({ failure: 'first_byte_timeout' })
  })
})
