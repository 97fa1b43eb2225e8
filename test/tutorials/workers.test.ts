/**
 * The commands run as typed. Without an account, wrangler builds the Worker and does not upload it, and its secrets
 * become the bindings of that Worker in workerd. The regions are gateways on Node with simulated engines.
 */
import { spawn, type ChildProcess } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { startFleet, type RunningFleet } from '../../packages/simulator/src/node/fleet-host.ts'
import { startBuiltWorker, type BuiltWorker } from '../kit/built-worker.ts'
import { ownPorts } from '../own-ports.ts'
import { until } from '../wait.ts'
import { prepareCheckout } from './checkout.ts'
import { bash, missingFrom, root, stepsOf } from './run-page.ts'

const folder = mkdtempSync(join(tmpdir(), 'tutorial-'))
const secrets = join(folder, 'secrets')
const reloads = join(folder, 'reloads')
const { checkout, path } = prepareCheckout(folder, {
  npx: `if [ "$1" = wrangler ]; then
  case "$2 $3" in
    "login "*) exit 0 ;;
    "secret put") exec cat > ${JSON.stringify(secrets)}/"$4" ;;
  esac
  exit 1
fi
PATH="$REAL_PATH" exec npx "$@"
`,
  ssh: `[ "$2" = "systemctl reload firstlight" ] && touch ${JSON.stringify(reloads)}/"$1"\n`,
})

/** Gateways of the regions. */
const regions = ['paris', 'oregon'].map((name) => ({ name, port: ownPorts(1), file: join(folder, `${name}.yaml`) }))
const children = new Map<string, ChildProcess>()
let fleet: RunningFleet
let worker: BuiltWorker | null = null

const isReady = (port: number) =>
  fetch(`http://127.0.0.1:${port}/ready`).then(
    ({ ok }) => ok,
    () => false,
  )

/** As the page says, with the line that `firstlight key` has printed. */
async function reload({ name, port, file }: (typeof regions)[number]): Promise<void> {
  const key = readFileSync(join(checkout, `${name}.key`), 'utf8')
  const [, hash] = /secret: \{ sha256: (\w+) \}/.exec(key)!
  const line = `  - { name: edge, secret: { sha256: ${hash} }, edge: true, allow_overrides: true }`
  writeFileSync(file, readFileSync(file, 'utf8').replace('keys:', `keys:\n${line}`))
  children.get(name)!.kill('SIGUSR2')
  const headers = { authorization: `Bearer ${key.split('\n')[0]}` }
  await until(() => fetch(`http://127.0.0.1:${port}/v1/models`, { headers }).then(({ ok }) => ok))
}

/** The Worker with the secrets of the steps before. Only the addresses of the regions differ. */
async function startWorker(): Promise<BuiltWorker> {
  const entries = readdirSync(secrets).map((name) => [name, readFileSync(join(secrets, name), 'utf8').trim()] as const)
  const bindings = Object.fromEntries(entries)
  const local = (text: string) =>
    regions.reduce(
      (one, { name, port }) => one.replace(`https://${name}.inference.example.com`, `http://127.0.0.1:${port}`),
      text,
    )
  return startBuiltWorker(local(bindings['FIRSTLIGHT_CONFIG']!), bindings)
}

beforeAll(async () => {
  mkdirSync(secrets)
  mkdirSync(reloads)
  fleet = await startFleet({ engines: 2, model: 'Qwen/Qwen3-8B' })
  for (const [at, { name, port, file }] of regions.entries()) {
    writeFileSync(
      file,
      `listen: 127.0.0.1:${port}
log: { level: silent }
keys:
  - { name: local, secret: { env: LOCAL_KEY } }
clusters:
  - id: ${name}
    pools:
      - { model: Qwen/Qwen3-8B, engines: [{ id: ${name}-a, url: "${fleet.urls[at]}" }] }
`,
    )
    const argv = [join(root, 'bin/firstlight.mjs'), 'serve', '--config', file]
    const env = { ...process.env, LOCAL_KEY: 'local-key' }
    children.set(name, spawn(process.execPath, argv, { env, stdio: 'ignore' }))
  }
  for (const { port } of regions) await until(() => isReady(port))
}, 60_000)

afterAll(async () => {
  await worker?.close()
  for (const child of children.values()) child.kill('SIGKILL')
  await fleet.close()
  rmSync(folder, { recursive: true, force: true })
})

const steps = stepsOf('workers.md')

it.each(steps.map((step, at) => ({ ...step, at, first: step.commands.split('\n')[0]! })))(
  'step $at works as typed: $first',
  async ({ commands, expected, at }) => {
    const deployed = 'https://firstlight.YOU.workers.dev'
    if (commands.includes(deployed)) worker = await startWorker()
    const typed = commands
      .replaceAll('<this repository>', 'URL')
      .replaceAll(deployed, worker?.url ?? deployed)
      .replace('npm run deploy', `npm run deploy -- --dry-run --outdir ${JSON.stringify(join(folder, 'built'))}`)
    const { code, output } = await bash(typed, at === 0 ? folder : checkout, path)
    expect(code, output).toBe(0)
    expect(missingFrom(output, expected), output).toEqual([])
    for (const region of regions)
      if (readdirSync(reloads).includes(region.name)) {
        rmSync(join(reloads, region.name))
        await reload(region)
      }
  },
  120_000,
)

it('the tutorial has ten commands, of which the last is the first request', () => {
  expect(steps.at(-1)!.commands).toContain('# 10')
  expect(readdirSync(join(folder, 'built'))).toContain('worker.js')
  // The deployment has bundled the configuration of the edge.
  expect(readFileSync(join(checkout, 'dist/dashboard/firstlight.yaml'), 'utf8')).toContain('gateway:')
})
