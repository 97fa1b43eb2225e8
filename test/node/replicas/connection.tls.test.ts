/** `rediss://`: a TLS listener in front of a real server, because builds of the server may lack TLS. */
import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createServer } from 'node:tls'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { findServer, ValkeyServer } from '../../../scripts/valkey-server.ts'
import { until } from '../../wait.ts'
import { type LocalServer, serveLocally } from '../../kit/local-server.ts'
import { localhost } from '../../kit/localhost-certificate.ts'
import { Member } from './member.ts'

const CONNECTION = new URL('../../../src/platform/node/replicas/connection.ts', import.meta.url).href
const binary = await findServer()

describe.skipIf(binary === null)('a server with TLS and a private CA', () => {
  let server: ValkeyServer
  let url = ''
  const folder = mkdtempSync(join(tmpdir(), 'firstlight-ca-'))
  const ca = join(folder, 'ca.pem')
  let listener: LocalServer
  const secure = createServer(localhost, (socket) => {
    const behind = connect(server.port, '127.0.0.1')
    socket.pipe(behind).pipe(socket)
    for (const end of [socket, behind]) end.on('error', () => [socket, behind].forEach((one) => one.destroy()))
  })

  beforeAll(async () => {
    writeFileSync(ca, localhost.cert)
    server = await ValkeyServer.start(binary!)
    listener = await serveLocally(secure)
    url = `rediss://127.0.0.1:${listener.port}`
  })
  afterAll(async () => {
    await listener.close()
    await server.stop()
    rmSync(folder, { recursive: true })
  })

  it('a server with TLS and a private CA is used with the CA in NODE_EXTRA_CA_CERTS', async () => {
    // Node reads the variable when it starts.
    const code = `
      const { createClientOf } = await import('${CONNECTION}')
      const client = await createClientOf({ url: '${url}', cluster: false })
      client.on('error', () => undefined)
      await client.connect()
      console.log(await client.eval('return ARGV[1]', { keys: [], arguments: ['over TLS'] }))
      client.destroy()`
    const env = { ...process.env, NODE_EXTRA_CA_CERTS: ca }
    const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '--eval', code], { env })
    expect(stdout.trim()).toBe('over TLS')
  })

  it('a server with TLS and a private CA is refused without the CA, and the gateway serves alone', async () => {
    const member = new Member({ url })
    try {
      await until(() => member.logged('replicas_disconnected').length > 0)
      expect(member.logged('replicas_disconnected')[0]!['why']).toMatch(/self-signed certificate/)
      await member.admit()
      expect(await member.bookings()).toBe(1)
    } finally {
      await member.close()
    }
  })
})
