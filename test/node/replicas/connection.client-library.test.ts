import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { expect, it } from 'vitest'

const SOURCE = new URL('../../../src/', import.meta.url).href

it('the client library is loaded by the first connection, not by a gateway without replicas', async () => {
  const code = `
    import { createRequire } from 'node:module'
    const { cache } = createRequire('${SOURCE}node.ts')
    const isLoaded = () => Object.keys(cache).some((path) => path.includes('@redis/client'))
    await import('${SOURCE}cli/commands/serve.ts')
    const before = isLoaded()
    const { createClientOf } = await import('${SOURCE}platform/node/replicas/connection.ts')
    await createClientOf({ url: 'redis://127.0.0.1:1', cluster: false })
    console.log(before, isLoaded())
    process.exit()`
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '--eval', code])
  expect(stdout.trim()).toBe('false true')
})
