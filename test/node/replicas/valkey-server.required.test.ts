/** Tests of replicas must not be skipped in CI: a skipped suite looks like a passed one. */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'

const SCRIPT = new URL('../../../scripts/valkey-server.ts', import.meta.url).href
const run = promisify(execFile)
const found = async (CI: string): Promise<string> => {
  const code = `console.log(await (await import('${SCRIPT}')).findServer())`
  const env = { ...process.env, CI, VALKEY_SERVER: '/nonexistent/valkey-server' }
  return (await run(process.execPath, ['--input-type=module', '--eval', code], { env })).stdout.trim()
}

describe('without a Valkey or Redis server', () => {
  it('tests fail if CI is set', async () => {
    await expect(found('true')).rejects.toThrow('No Valkey server')
  })

  it.each(['', 'false', '0'])('tests are skipped if CI is "%s"', async (value) => {
    expect(await found(value)).toBe('null')
  })
})
