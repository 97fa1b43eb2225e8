import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, it } from 'vitest'
import { main } from '../../bin/commands.ts'
import { workerStorageNotes } from '../../src/cli/worker-storage.ts'

const folder = mkdtempSync(join(tmpdir(), 'firstlight-workers-'))
afterAll(() => rmSync(folder, { recursive: true }))

/** Engines in the form of docs/deploy-workers.md. */
const documentOf = (engines: number, more = ''): string => `version: 1
keys:
  - { name: team-a, secret: { env: TEAM_A_KEY } }
admin: { secret: { env: FIRSTLIGHT_ADMIN_KEY } }
${more}clusters:
  - id: paris
    location_hint: weur
    pools:
      - model: Qwen/Qwen3-8B
        aliases: [qwen]
        engines:
${Array.from(
  { length: engines },
  (_, at) => `          - id: engine-${at}
            url: https://engine-${at}.engines.example.com
            key: { env: VLLM_KEY }
            headers:
              CF-Access-Client-Id: { env: CF_ACCESS_CLIENT_ID }
              CF-Access-Client-Secret: { env: CF_ACCESS_CLIENT_SECRET }
`,
).join('')}`

async function check(text: string, flags = ['--workers']): Promise<{ readonly code: number; readonly out: string }> {
  const file = join(folder, 'firstlight.yaml')
  writeFileSync(file, text)
  const lines: string[] = []
  const [stop, stopNow] = [AbortSignal.abort(), AbortSignal.abort()]
  const write = (line: string): void => void lines.push(line)
  const code = await main(['check', file, ...flags, '--without-env'], {
    out: write,
    err: write,
    env: {},
    stop,
    stopNow,
  })
  return { code, out: lines.join('\n') }
}

it('check --workers says that 24 engines in the form of the guide do not fit a secret, and where they do', async () => {
  const { code, out } = await check(documentOf(24))
  expect(code).toBe(0)
  expect(out).toMatch(/note: the document has [5-9]\.\d kB, and Cloudflare limits variables and secrets to 5 kB/)
  expect(out).toContain('Store it in KV, or leave it as firstlight.yaml beside wrangler.toml')
})

it('check --workers says that a small document fits everywhere', async () => {
  const { code, out } = await check(documentOf(2))
  expect(code).toBe(0)
  expect(out).toContain('it fits the secret FIRSTLIGHT_CONFIG, KV, and the file')
})

it('check --workers refuses what a Worker refuses', async () => {
  const { code, out } = await check(documentOf(2, 'replicas: { url: "redis://10.0.0.1:6379" }\n'))
  expect(code).not.toBe(0)
  expect(out).toContain('replicas')
  expect(out).toContain('needs `firstlight serve` on Node: leave it out')
})

it.each([[[]], [['--workers']]])('check %j validates the edge and each region of one document', async (flags) => {
  const one = (policy: string): string => `keys: [{ name: shop, secret: { env: SHOP_KEY } }]
clusters:
  - id: paris
    gateway: { url: https://paris.example.com, key: { env: PARIS_KEY } }
    pools: [{ model: m, policy: ${policy}, engines: [{ id: a, url: http://10.0.0.1:8000 }] }]
`
  const { code, out } = await check(one('round_robin'), flags)
  expect([code, out]).toEqual([0, expect.stringContaining('region paris is valid, too: m; engines: 1.')])
  const wrong = await check(one('nonsense'), flags)
  expect(wrong.code).not.toBe(0)
  expect(wrong.out).toContain('clusters[0].pools[0].policy')
})

it('storage of a document is counted in bytes, and has a limit in KV, too', () => {
  expect(workerStorageNotes('é'.repeat(2_500))[0]).toContain('it fits')
  expect(workerStorageNotes('é'.repeat(2_501))[0]).toContain('5.0 kB, and Cloudflare limits')
  expect(workerStorageNotes('x'.repeat(25 * 1024 * 1024 + 1))[0]).toContain('hold over 25 MiB')
})
