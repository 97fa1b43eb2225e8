import { once } from 'node:events'
import net from 'node:net'
import type { AddressInfo } from 'node:net'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { ownRequest } from '../../../src/origin/own-request.ts'
import { type NodeOrigin, socketOrigin } from '../../../src/platform/node/http1/origin.ts'

const ANSWER = 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok'

/** Sockets that keep this process running. */
const running = (): number => process.getActiveResourcesInfo().filter((name) => name === 'TCPSocketWrap').length

describe('a client for engines that is closed', () => {
  let engine: net.Server
  let origin: NodeOrigin
  let sockets: net.Socket[]

  beforeEach(async () => {
    sockets = []
    engine = net.createServer((socket) => sockets.push(socket.unref().on('error', () => {})))
    engine.listen(0, '127.0.0.1')
    await once(engine, 'listening')
    origin = socketOrigin()
  })
  afterEach(() => {
    for (const socket of sockets) socket.destroy()
    engine.close()
    origin.close()
  })

  /** Sends a request; resolves when the engine has it. */
  const ask = async (): Promise<{ readonly answer: Promise<Uint8Array | null>; readonly socket: net.Socket }> => {
    const url = `http://127.0.0.1:${(engine.address() as AddressInfo).port}`
    const target = { id: 'a', url, headers: [], binding: null }
    const answer = origin.send(ownRequest(target, '/', { limitMs: 30_000 })).then((head) => head.read(100))
    const [socket] = (await once(engine, 'connection')) as [net.Socket]
    await once(socket, 'data')
    return { answer, socket }
  }

  it('the connection of a request that was running when it ends is closed', async () => {
    const { answer, socket } = await ask()
    origin.close()
    const closed = once(socket, 'close')
    socket.write(ANSWER)
    expect(new TextDecoder().decode((await answer)!)).toBe('ok')
    await closed
  })

  it('the connection of a later request is closed when that ends', async () => {
    origin.close()
    const { answer, socket } = await ask()
    const closed = once(socket, 'close')
    socket.write(ANSWER)
    await answer
    await closed
  })

  it('a request without an answer does not keep the process running', async () => {
    const before = running()
    const { answer } = await ask()
    answer.catch(() => {})
    expect(running()).toBe(before + 1)
    origin.close()
    expect(running()).toBe(before)
  })
})
