/**
 * The commands run as typed. Stand-ins replace kind, docker, helm and kubectl: they read the manifest and the values,
 * list pods in a fake API server, and start the gateway with the chart's document. test/deploy renders the chart.
 */
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { load } from 'js-yaml'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { main } from '../../bin/commands.ts'
import { FakeEngine } from '../kit/fake-engine.ts'
import { FakeApi } from '../node/kubernetes/fake-api.ts'
import { ownPorts } from '../own-ports.ts'
import { bash, missingFrom, root, stepsOf } from './run-page.ts'

const folder = mkdtempSync(join(tmpdir(), 'tutorial-'))
const path = `${join(folder, 'bin')}:${process.env['PATH']}`
const port = ownPorts(1)
const api = new FakeApi()
const over = new AbortController()
const secrets: Record<string, string> = {}
let ended: Promise<number> | null = null
let engines: FakeEngine
let control: FakeEngine

interface Manifest {
  readonly spec: {
    readonly replicas: number
    readonly template: { readonly metadata: { readonly labels: Record<string, string> } }
  }
}

let labels: Record<string, string> = {}
const scale = (replicas: number) => {
  for (let at = 1; at <= replicas; at++) api.set({ name: `engine-${at}`, address: `127.0.2.${at}`, labels })
}

function kubectl(words: readonly string[]): void {
  const [verb, kind] = words
  if (verb === 'apply') {
    const { spec } = load(readFileSync(join(folder, words[2]!), 'utf8')) as Manifest
    labels = spec.template.metadata.labels
    scale(spec.replicas)
  } else if (verb === 'create') {
    for (const word of words) {
      const [, name, value] = /^--from-literal=(\w+)=(.*)$/.exec(word) ?? []
      if (name !== undefined) secrets[name] = value!
    }
  } else if (verb === 'scale') scale(Number(words.at(-1)))
  else if (verb !== 'rollout' && verb !== 'port-forward') throw new Error(`kubectl ${verb} ${kind}`)
}

/** Starts the gateway with the chart's document. Only its port and the engines' differ here. */
async function helm(words: readonly string[]): Promise<void> {
  const [install, , chart, , values] = words
  expect([install, chart]).toEqual(['install', 'deploy/helm/firstlight'])
  readFileSync(join(root, chart!, 'Chart.yaml'))
  const { config } = load(readFileSync(join(folder, values!), 'utf8')) as { config: { listen: string } }
  expect(config.listen).toBe('0.0.0.0:8080')
  const kubeconfig = {
    'current-context': 'x',
    contexts: [{ name: 'x', context: { cluster: 'x', user: 'x' } }],
    clusters: [{ name: 'x', cluster: { server: await api.listen() } }],
    users: [{ name: 'x', user: { token: 'secret' } }],
  }
  writeFileSync(join(folder, 'kubeconfig'), JSON.stringify(kubeconfig))
  const document = JSON.stringify({ ...config, log: { level: 'silent' } }).replace('pods:8000', `pods:${engines.port}`)
  writeFileSync(join(folder, 'document.json'), document)
  const env = { ...secrets, KUBECONFIG: join(folder, 'kubeconfig') }
  const io = { out: () => undefined, err: () => undefined, env, stop: over.signal, stopNow: over.signal }
  ended = main(
    ['serve', '--config', join(folder, 'document.json'), '--listen', `127.0.0.1:${port}`, '--workers', '1'],
    io,
  )
  await expect
    .poll(() =>
      fetch(`http://127.0.0.1:${port}/ready`).then(
        ({ ok }) => ok,
        () => false,
      ),
    )
    .toBe(true)
}

beforeAll(async () => {
  engines = await FakeEngine.open(
    {
      'POST *': { body: { object: 'chat.completion', choices: [] } },
      '*': { body: { data: [{ id: 'sim' }] } },
    },
    { host: '0.0.0.0' },
  )
  control = await FakeEngine.open({
    '*': async ({ target }) => {
      const [program, ...rest] = JSON.parse(decodeURIComponent(target.slice(1))) as string[]
      try {
        if (program === 'kubectl') kubectl(rest)
        else if (program === 'helm') await helm(rest)
        return { body: '' }
      } catch (error) {
        return { status: 500, body: String(error) }
      }
    },
  })
  const url = `${control.url}/`
  mkdirSync(join(folder, 'bin'))
  symlinkSync(join(root, 'deploy'), join(folder, 'deploy'))
  for (const name of ['kind', 'docker', 'helm', 'kubectl']) {
    const ask =
      `const r = await fetch(${JSON.stringify(url)} + encodeURIComponent(JSON.stringify(` +
      `[${JSON.stringify(name)}, ...process.argv.slice(1)]))); if (!r.ok) throw new Error(await r.text())`
    const script = `#!/bin/bash\nexec ${process.execPath} --input-type=module -e '${ask}' -- "$@"\n`
    writeFileSync(join(folder, 'bin', name), script)
    chmodSync(join(folder, 'bin', name), 0o755)
  }
})

afterAll(async () => {
  over.abort()
  await ended
  await api.close()
  await Promise.all([engines.close(), control.close()])
  rmSync(folder, { recursive: true, force: true })
})

it.each(stepsOf('kubernetes.md').map((step, at) => ({ ...step, at, first: step.commands.split('\n')[0]! })))(
  'step $at works as typed: $first',
  async ({ commands, expected }) => {
    const { code, output } = await bash(commands.replaceAll('127.0.0.1:8080', `127.0.0.1:${port}`), folder, path)
    expect(code, output).toBe(0)
    expect(missingFrom(output, expected), output).toEqual([])
  },
  60_000,
)
