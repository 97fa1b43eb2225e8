// `npm run deploy`: deploys the Worker, or the regions and the front of wrangler.local.toml. Arguments go to wrangler.
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { experimental_readRawConfig as readRawConfig } from 'wrangler'
import { regionsIn } from '../src/config/own-document.ts'
import { parseYaml } from '../src/config/yaml.ts'
import { deploymentConfig } from './wrangler-config.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
const LOCAL = 'wrangler.local.toml'
const MERGED = 'wrangler.deploy.json'
const CONFIG = 'firstlight.yaml'

/** Regions of the document here that are described with their pools. */
const documented = existsSync(root + CONFIG) ? regionsIn(parseYaml(readFileSync(root + CONFIG, 'utf8')).value) : []

/** Returns the path for `--config` and the regions. Without a local file the tracked one is used as it is. */
function prepare(): { readonly config: string; readonly regions: readonly string[] } {
  if (!existsSync(root + LOCAL)) return { config: 'wrangler.toml', regions: [] }
  const read = (name: string) => readRawConfig({ config: root + name }).rawConfig as Readonly<Record<string, unknown>>
  const { config, regions } = deploymentConfig(read('wrangler.toml'), read(LOCAL), documented)
  writeFileSync(root + MERGED, `${JSON.stringify(config, null, 2)}\n`)
  return { config: MERGED, regions }
}

function run(script: string, args: readonly string[]): void {
  const { status } = spawnSync(process.execPath, [root + script, ...args], { cwd: root, stdio: 'inherit' })
  if (status !== 0) process.exit(status ?? 1)
}

const wrangler = (args: readonly string[]): void => run('node_modules/wrangler/bin/wrangler.js', args)

/** Checks the configuration, if there is one here, and lets the build of the assets bundle it. */
function bundleConfig(regions: readonly string[]): void {
  if (!existsSync(root + CONFIG)) {
    console.log(`${CONFIG} is not here: the Worker reads the secret FIRSTLIGHT_CONFIG, or KV (docs/deploy-workers.md).`)
    return
  }
  run('bin/firstlight.mjs', ['check', CONFIG, '--workers', '--without-env'])
  // Each Worker of the bundle would read it, and a region with the front's configuration sends requests to itself.
  if (regions.length > 0 && documented.length === 0) {
    console.log(`\n${CONFIG} is not bundled: it does not describe the regions (docs/regions.md, One document).`)
    return
  }
  process.env['FIRSTLIGHT_BUNDLED_CONFIG'] = root + CONFIG
  console.log(
    `\n${CONFIG} is bundled with the Worker. A secret FIRSTLIGHT_CONFIG, or a document in KV, takes precedence.`,
  )
}

const { config, regions } = prepare()
bundleConfig(regions)
const given = process.argv.slice(2)
// The front binds the regions, so they must exist first.
for (const environment of [...regions, '']) {
  if (regions.length > 0) console.log(`\n${environment === '' ? 'Front' : `Region ${environment}`}:`)
  wrangler(['deploy', '--config', config, `--env=${environment}`, ...given])
}
