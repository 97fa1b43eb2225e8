import { execFile } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'
import { experimental_readRawConfig as readRawConfig } from 'wrangler'
import { deploymentConfig } from '../../scripts/wrangler-config.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const base = readRawConfig({ config: `${root}wrangler.toml` }).rawConfig as Readonly<Record<string, unknown>>
const place = (region: string) => ({ placement: { region } })

interface Env {
  readonly workers_dev: boolean
  readonly durable_objects: unknown
  readonly define: unknown
  readonly kv_namespaces?: unknown
}

describe('the configuration for wrangler', () => {
  it('the configuration for wrangler of one placed Worker adds to the tracked one', () => {
    const { config, regions } = deploymentConfig(base, { name: 'mine', ...place('aws:eu-central-1') })
    expect(regions).toEqual([])
    expect(config).toMatchObject({ name: 'mine', placement: { region: 'aws:eu-central-1' }, main: 'src/worker.ts' })
    expect(config).not.toHaveProperty('env')
  })

  it('the configuration for wrangler makes each environment a region without a public name, which the front binds', () => {
    const kv = [{ binding: 'CONFIG', id: 'front' }]
    const local = { kv_namespaces: kv, env: { eu: place('aws:eu-central-1'), 'us-east': place('aws:us-east-1') } }
    const { config, regions } = deploymentConfig(base, local)
    expect(regions).toEqual(['eu', 'us-east'])
    expect(config['services']).toEqual([
      { binding: 'REGION_EU', service: 'firstlight-eu' },
      { binding: 'REGION_US_EAST', service: 'firstlight-us-east' },
    ])
    const { eu } = config['env'] as { eu: Env }
    expect(eu).toMatchObject({ ...place('aws:eu-central-1'), workers_dev: false })
    // A region that read the front's configuration would send requests back to itself.
    expect(eu.kv_namespaces).toEqual([])
    expect(eu.durable_objects).toEqual(base['durable_objects'])
    expect(eu.define).toEqual({ FIRSTLIGHT_DOCS: 'false' })
  })

  it('the configuration for wrangler names the cluster of each region of one document, and needs an environment for each', () => {
    const local = { env: { eu: { ...place('aws:eu-central-1'), vars: { A: 'b' } }, us: place('aws:us-east-1') } }
    const { config } = deploymentConfig(base, local, ['eu', 'us'])
    expect(config['env']).toMatchObject({
      eu: { vars: { A: 'b', FIRSTLIGHT_REGION: 'eu' } },
      us: { vars: { FIRSTLIGHT_REGION: 'us' } },
    })
    expect(config).not.toHaveProperty('vars')
    expect(() => deploymentConfig(base, local, ['eu', 'us', 'asia'])).toThrow(/region asia, .* no \[env\.asia\]/)
    expect(() => deploymentConfig(base, local, ['eu'])).toThrow(/has \[env\.us\], and firstlight\.yaml no cluster us/)
  })

  it('the configuration for wrangler needs the placement of a region', () => {
    expect(() => deploymentConfig(base, { env: { eu: {} } })).toThrow(/env\.eu has no placement.*aws:eu-central-1/)
    const placed = { ...place('aws:eu-central-1'), env: { eu: place('aws:eu-central-1') } }
    expect(() => deploymentConfig(base, placed)).toThrow(/Remove the top-level placement/)
  })

  it('the configuration for wrangler is accepted by wrangler for the front and for a region', async () => {
    const { config } = deploymentConfig(base, { env: { eu: place('aws:eu-central-1') } })
    const path = `${root}wrangler.test-${process.pid}.json`
    const out = mkdtempSync(`${tmpdir()}/firstlight-deploy-`)
    writeFileSync(path, JSON.stringify({ ...config, build: {} }))
    try {
      const text = await Promise.all(['eu', ''].map((env) => dryRun(path, env, `${out}/${env || 'front'}`)))
      expect(text[0]).toMatch(/EdgeObject/)
      expect(text[1]).toMatch(/REGION_EU/)
    } finally {
      rmSync(path)
      rmSync(out, { recursive: true })
    }
  })
})

async function dryRun(config: string, env: string, outdir: string): Promise<string> {
  const wrangler = `${root}node_modules/wrangler/bin/wrangler.js`
  const args = [wrangler, 'deploy', '--dry-run', '--config', config, `--env=${env}`, '--outdir', outdir]
  const { stdout } = await promisify(execFile)(process.execPath, args, {
    cwd: root,
    env: { ...process.env, WRANGLER_SEND_METRICS: 'false', WRANGLER_WRITE_LOGS: 'false' },
  })
  return stdout
}

it('the deploy button asks for the secrets of .dev.vars.example', () => {
  const { cloudflare } = JSON.parse(readFileSync(`${root}package.json`, 'utf8')) as {
    readonly cloudflare: { readonly bindings: object }
  }
  const variables = readFileSync(`${root}.dev.vars.example`, 'utf8').matchAll(/^([A-Z_]+)=/gm)
  expect(Object.keys(cloudflare.bindings)).toEqual(expect.arrayContaining([...variables].map(([, name]) => name)))
})
