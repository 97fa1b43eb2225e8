// `npm run deploy`: deploys the Worker, or the regions and the front of wrangler.local.toml. Arguments go to wrangler.
import { spawnSync } from 'node:child_process'
import { existsSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { experimental_readRawConfig as readRawConfig } from 'wrangler'
import { deploymentConfig } from './wrangler-config.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
const LOCAL = 'wrangler.local.toml'
const MERGED = 'wrangler.deploy.json'

/** Returns the path for `--config` and the regions. Without a local file the tracked one is used as it is. */
function prepare(): { readonly config: string; readonly regions: readonly string[] } {
  if (!existsSync(root + LOCAL)) return { config: 'wrangler.toml', regions: [] }
  const read = (name: string) => readRawConfig({ config: root + name }).rawConfig as Readonly<Record<string, unknown>>
  const { config, regions } = deploymentConfig(read('wrangler.toml'), read(LOCAL))
  writeFileSync(root + MERGED, `${JSON.stringify(config, null, 2)}\n`)
  return { config: MERGED, regions }
}

function wrangler(args: readonly string[]): void {
  const bin = fileURLToPath(new URL('../node_modules/wrangler/bin/wrangler.js', import.meta.url))
  const { status } = spawnSync(process.execPath, [bin, ...args], { cwd: root, stdio: 'inherit' })
  if (status !== 0) process.exit(status ?? 1)
}

const { config, regions } = prepare()
const given = process.argv.slice(2)
// The front binds the regions, so they must exist first.
for (const environment of [...regions, '']) {
  if (regions.length > 0) console.log(`\n${environment === '' ? 'Front' : `Region ${environment}`}:`)
  wrangler(['deploy', '--config', config, `--env=${environment}`, ...given])
}
