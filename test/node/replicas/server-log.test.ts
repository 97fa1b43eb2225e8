import { expect, it } from 'vitest'
import { ServerLog } from '../../../src/platform/node/replicas/server-log.ts'
import type { Log } from '../../../src/ports/log.ts'

function opened(): { readonly server: ServerLog; readonly events: string[] } {
  const events: string[] = []
  const write = (event: string): void => void events.push(event)
  const log: Log = { debug: write, info: write, warn: write, error: write }
  return { server: new ServerLog(log), events }
}

it('a rejection that comes before the end of the start is logged once for the connection', () => {
  const { server, events } = opened()
  const rejection = new Error("NOPERM User none has no permissions to run the 'eval' command")
  server.rejected(rejection)
  server.up()
  server.rejected(rejection)
  expect(events).toEqual(['replicas_rejected', 'replicas_connected'])
})

it('a server that is lost again is logged again, and each failed attempt to reach it is not', () => {
  const { server, events } = opened()
  const refused = new Error('connect ECONNREFUSED')
  for (let connection = 0; connection < 2; connection++) {
    server.down(refused)
    server.down(refused)
    server.up()
  }
  expect(events).toEqual(['replicas_disconnected', 'replicas_connected', 'replicas_disconnected', 'replicas_connected'])
})

it('a command that fails with its connection is no rejection', () => {
  const { server, events } = opened()
  server.up()
  for (const message of ['read ECONNRESET', 'Socket closed unexpectedly', 'The client is closed', 'not connected'])
    server.rejected(new Error(message))
  server.down(new Error('read ECONNRESET'))
  expect(events).toEqual(['replicas_connected', 'replicas_disconnected'])
})
