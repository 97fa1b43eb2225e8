import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { startPeer } from '../../../packages/bench/peers/start-peer.ts'

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'firstlight-start-peer-'))
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

/** Installs a script under the name of SMG. */
function install(script: string): void {
  const bin = join(folder, 'v-smg', 'bin')
  mkdirSync(bin, { recursive: true })
  writeFileSync(join(bin, 'smg'), `#!/bin/sh\n${script}\n`)
  chmodSync(join(bin, 'smg'), 0o755)
}

const start = (name: string) => startPeer({ name, engines: ['http://127.0.0.1:9'], work: folder, installed: folder })

it('a peer of the installed folder is started, and its end before an answer is an error with its log', async () => {
  install('echo "$@" >&2; exit 3')
  await expect(start('smg:least_load')).rejects.toThrow(/smg:least_load ended with 3; its log: .*smg-least_load\/log/)
})

it('a peer that is not installed is an error with the way to install it', async () => {
  await expect(start('portkey-none')).rejects.toThrow(/No peer is called 'portkey-none'. Known: vllm-router, smg/)
  const path = process.env['PATH']
  process.env['PATH'] = folder
  try {
    await expect(start('smg')).rejects.toThrow("'smg' cannot be run. Install smg: pip install smg==1.13.0")
  } finally {
    process.env['PATH'] = path
  }
})

it('a peer is ready when it answers a chat, and its process ends at `end`', async () => {
  const server = `require("http").createServer((q, r) => r.end("{}")).listen(+process.argv[process.argv.indexOf("--port") + 1])`
  install(`exec '${process.execPath}' -e '${server}' -- "$@"`)
  const peer = await start('smg:cache_aware')
  expect((await fetch(`http://127.0.0.1:${peer.port}/`)).status).toBe(200)
  await peer.end()
  await expect(fetch(`http://127.0.0.1:${peer.port}/`)).rejects.toThrow()
})
