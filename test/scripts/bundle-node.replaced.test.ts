import { spawn } from 'node:child_process'
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { afterAll, expect, it } from 'vitest'
import { bundleNode } from '../../scripts/bundle-node.ts'

const folder = mkdtempSync(join(tmpdir(), 'firstlight-bundle-'))
afterAll(() => rmSync(folder, { recursive: true }))

const ADMIN_KEY = 'admin-key-1'

/** Starts the bundle. Returns its URL, and what stops it. */
async function startBundle(bundle: string): Promise<{ readonly url: string; readonly stop: () => void }> {
  const config = join(folder, 'firstlight.json')
  const engines = [{ id: 'e', url: 'http://127.0.0.1:9' }]
  const clusters = [{ id: 'c', pools: [{ model: 'm', engines }] }]
  writeFileSync(config, JSON.stringify({ listen: '127.0.0.1:0', open: true, admin: { secret: ADMIN_KEY }, clusters }))
  const gateway = spawn(process.execPath, [join(bundle, 'program.mjs'), 'serve', '--config', config])
  for await (const line of createInterface(gateway.stdout)) {
    const { event, url } = JSON.parse(line) as { readonly event: string; readonly url: string }
    if (event === 'listening') return { url, stop: () => void gateway.kill('SIGKILL') }
  }
  throw new Error('The bundle does not listen.')
}

it('a gateway that runs serves every route after its bundle was replaced by that of another version', async () => {
  const bundle = join(folder, 'node')
  await bundleNode(bundle)
  const { url, stop } = await startBundle(bundle)
  try {
    for (const name of readdirSync(bundle)) rmSync(join(bundle, name))
    const headers = { authorization: `Bearer ${ADMIN_KEY}` }
    for (const path of ['/openapi.json', '/metrics', '/version', '/v1/models', '/v1/firstlight/fleet'])
      expect((await fetch(url + path, { headers })).status, path).toBe(200)
  } finally {
    stop()
  }
}, 60_000)
