/**
 * Helm chart and compose file. Rendering needs `helm` on PATH or FIRSTLIGHT_HELM, the schemas of Kubernetes need
 * `kubernetes-validate` (Python) on PATH or FIRSTLIGHT_KUBERNETES_VALIDATE; without them these tests are skipped.
 */
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { parseConfig } from '../../src/config/parse.ts'
import { parseYaml } from '../../src/config/yaml.ts'
import type { Config } from '../../src/config.ts'
import { METRICS } from '../../src/telemetry/metrics.ts'

// oxlint-disable-next-line typescript/no-explicit-any -- manifests of many kinds; the assertions check their fields
type Fields = Readonly<Record<string, any>>

const pathOf = (path: string): string => fileURLToPath(new URL(`../../deploy/${path}`, import.meta.url))
const yamlOf = (text: string): Fields => parseYaml(text).value as Fields
const read = (path: string): Fields => yamlOf(readFileSync(pathOf(path), 'utf8'))

const anyEnv = new Proxy(
  {},
  { get: (_, name) => (name === 'FIRSTLIGHT_REPLICAS_URL' ? 'redis://valkey:6379' : `value-of-${String(name)}`) },
)
const configOf = (document: unknown): Config =>
  parseConfig(document, anyEnv, { defaultVersion: 1, defaultObserveShare: 1, listens: true })

const values = read('helm/firstlight/values.yaml')

it('the document in the values of the chart is valid', () => {
  expect(configOf(values['config']).listen).toEqual({ host: '0.0.0.0', port: 8080 })
})

it('the schema of the values describes every value', () => {
  const schema = JSON.parse(readFileSync(pathOf('helm/firstlight/values.schema.json'), 'utf8')) as Fields
  expect(Object.keys(values).filter((key) => !(key in schema['properties']))).toEqual([])
})

it('the chart has the same alerts and dashboard as the examples (else: npm run docs)', () => {
  const example = (path: string) => readFileSync(pathOf(`../examples/${path}`), 'utf8')
  const chart = (name: string) => readFileSync(pathOf(`helm/firstlight/files/${name}`), 'utf8')
  expect(chart('alerts.yml')).toBe(example('prometheus/alerts.yml'))
  expect(chart('dashboard.json')).toBe(example('grafana/firstlight.json'))
})

it('the compose file has a valid document, and every config that a service uses', () => {
  const compose = read('compose.yaml')
  expect(configOf(yamlOf(compose['configs'].gateway.content)).clusters[0]!.pools[0]!.model).toBe('sim')
  const used = Object.values<Fields>(compose['services']).flatMap(({ configs = [] }) => configs as Fields[])
  expect(used.map(({ source }) => source as string).sort()).toEqual(Object.keys(compose['configs']).sort())
  const prometheus = yamlOf(compose['configs'].prometheus.content)
  expect(prometheus['scrape_configs'][0].authorization.credentials).toBe(
    configOf(yamlOf(compose['configs'].gateway.content)).metrics.key,
  )
})

const helm = process.env['FIRSTLIGHT_HELM'] ?? 'helm'
const hasHelm = spawnSync(helm, ['version']).status === 0
const validate = process.env['FIRSTLIGHT_KUBERNETES_VALIDATE'] ?? 'kubernetes-validate'
const hasValidate = spawnSync(validate, ['--version']).status === 0
/** Without a cluster, Helm assumes a version that depends on how it was built. */
const KUBERNETES = '1.31.0'

describe.skipIf(!hasHelm)('the Helm chart', () => {
  const chart = pathOf('helm/firstlight')
  const run = (...args: string[]) => spawnSync(helm, args, { encoding: 'utf8' })
  const fixed = ['template', 'x', chart, '-n', 'llm', '--kube-version', KUBERNETES]
  const template = (...sets: string[]) => run(...fixed, ...sets.flatMap((one) => ['--set', one]))
  const rendered = (...sets: string[]): readonly Fields[] => {
    const { status, stdout, stderr } = template(...sets)
    expect(stderr).toBe('')
    expect(status).toBe(0)
    return stdout
      .split(/^---$/m)
      .filter((text) => /^kind:/m.test(text))
      .map(yamlOf)
  }
  const named = (objects: readonly Fields[], kind: string): Fields => objects.find((one) => one['kind'] === kind)!
  const features = [
    'valkey',
    'autoscaling',
    'keda',
    'podMonitor',
    'serviceMonitor',
    'prometheusRule',
    'grafanaDashboard',
    'networkPolicy',
    'ingress',
    'httpRoute',
  ]
  const all = features.map((name) => `${name}.enabled=true`)

  it('the Helm chart passes the linter', () => {
    const { status, stdout } = run('lint', '--strict', chart)
    expect(stdout).toContain('0 chart(s) failed')
    expect(status).toBe(0)
  })

  it('the Helm chart rejects a wrong value and an unknown one', () => {
    for (const wrong of ['replicaCount=two', 'service.prot=80', 'config.listen=0.0.0.0:9000']) {
      const { status, stderr } = template(wrong)
      expect(status).not.toBe(0)
      expect(stderr).toContain("don't meet the specifications of the schema")
    }
  })

  it.skipIf(!hasValidate)(
    'the Helm chart has manifests that the schemas of Kubernetes accept, without unknown fields',
    () => {
      const file = join(mkdtempSync(join(tmpdir(), 'chart-')), 'all.yaml')
      writeFileSync(file, template(...all).stdout)
      const version = KUBERNETES.replace(/\.\d+$/, '')
      const { status, stdout, stderr } = spawnSync(validate, ['--strict', '--no-warn', '-k', version, file], {
        encoding: 'utf8',
      })
      expect({ status, stderr }, stdout).toEqual({ status: 0, stderr: '' })
      expect(stdout.split('passed for resource').length - 1).toBeGreaterThanOrEqual(13)
    },
  )

  it('the Helm chart renders a document that the gateway accepts, with replicas if there is a Valkey server', () => {
    const documentOf = (objects: readonly Fields[]) => yamlOf(named(objects, 'ConfigMap')['data']['firstlight.yaml'])
    expect(configOf(documentOf(rendered())).replicas).toBeNull()
    expect(configOf(documentOf(rendered(...all))).replicas?.url).toBe('redis://valkey:6379')
    const secret = rendered('configInSecret=true')
    expect(named(secret, 'Secret')['stringData']['firstlight.yaml']).toContain('clusters:')
    const volumes = named(secret, 'Deployment')['spec'].template.spec.volumes as Fields[]
    expect(volumes[0]!['secret'].secretName).toBe(named(secret, 'Secret')['metadata'].name)
  })

  it('the Helm chart lets the gateway read the resources of the inference extension only if they are enabled', () => {
    const reads = (apiGroup: string, resource: string) => ({
      apiGroups: [apiGroup],
      resources: [resource],
      verbs: ['list', 'watch'],
    })
    expect(named(rendered('inferencePools.enabled=true'), 'Role')['rules']).toEqual([
      reads('', 'pods'),
      reads('inference.networking.k8s.io', 'inferencepools'),
      reads('llm-d.ai', 'inferenceobjectives'),
    ])
  })

  it('the Helm chart scrapes each replica once, with the key for metrics and not with that of the administrator', () => {
    const objects = rendered(...all)
    const document = yamlOf(named(objects, 'ConfigMap')['data']['firstlight.yaml'])
    const secret = { name: 'firstlight', key: document['metrics'].key.env as string }
    expect(secret.key).not.toBe(document['admin'].secret.env)
    const [pods, services] = [named(objects, 'PodMonitor')['spec'], named(objects, 'ServiceMonitor')['spec']]
    expect(pods.podMetricsEndpoints[0].authorization.credentials).toEqual(secret)
    expect(services.endpoints[0].authorization.credentials).toEqual(secret)
    const wanted = Object.entries<string>(services.selector.matchLabels)
    const chosen = objects.filter(
      ({ kind, metadata }) =>
        kind === 'Service' && wanted.every(([label, value]) => metadata.labels?.[label] === value),
    )
    expect(chosen.map(({ metadata }) => metadata.name)).toEqual(['x-firstlight-headless'])
    expect([pods.jobLabel, services.jobLabel]).toEqual(['app.kubernetes.io/name', 'app.kubernetes.io/name'])
  })

  it('the Helm chart has the alerts of the examples, each with a runbook, and the dashboard', () => {
    const rules = (objects: readonly Fields[]) =>
      (named(objects, 'PrometheusRule')['spec'].groups as Fields[]).flatMap((group) => group['rules'] as Fields[])
    const inCluster = rules(rendered(...all))
    const example = read('../examples/prometheus/alerts.yml')['groups'][0].rules as Fields[]
    expect(inCluster.map(({ alert, expr }) => [alert, expr])).toEqual(example.map(({ alert, expr }) => [alert, expr]))
    for (const { annotations } of inCluster)
      expect(annotations.runbook_url).toBe('http://x-firstlight.llm.svc:80/runbook')
    const own = rules(rendered('prometheusRule.enabled=true', 'prometheusRule.runbookUrl=https://wiki/llm'))
    expect(own[0]!['annotations'].runbook_url).toBe('https://wiki/llm')
    const dashboard = rendered('grafanaDashboard.enabled=true').find(
      ({ kind, metadata }) => kind === 'ConfigMap' && metadata.labels.grafana_dashboard === '1',
    )!
    const text = readFileSync(pathOf('../examples/grafana/firstlight.json'), 'utf8')
    expect(JSON.parse(dashboard['data']['firstlight.json'] as string)).toEqual(JSON.parse(text))
  })

  it('the Helm chart scales the engines of each pool by its own requests, also from zero', () => {
    const pools = (at: number, name: string) => `keda.pools[${at}].${name}`
    const objects = rendered(
      'keda.enabled=true',
      ...['target=a', 'model=m/A', 'minReplicas=0', 'maxReplicas=3'].map((one) => pools(0, one)),
      ...['target=b', 'model=B', 'minReplicas=2', 'maxReplicas=4', 'query=up'].map((one) => pools(1, one)),
    ).filter(({ kind }) => kind === 'ScaledObject')
    expect(objects.map(({ metadata }) => metadata.name)).toEqual(['x-firstlight-a', 'x-firstlight-b'])
    expect(objects.map(({ spec }) => [spec.scaleTargetRef.name, spec.minReplicaCount, spec.maxReplicaCount])).toEqual([
      ['a', 0, 3],
      ['b', 2, 4],
    ])
    const [query, own] = objects.map(({ spec }) => String(spec.triggers[0].metadata.query))
    const names = METRICS.map(({ name }) => name)
    const used = [...query!.matchAll(/(firstlight_\w+)\{model="m\/A"\}/g)].map(([, name]) => name!)
    expect(used).toHaveLength(3)
    expect(used.filter((name) => !names.includes(name))).toEqual([])
    expect(own).toBe('up')
  })

  const withSlo = [
    'config.keda.tls=off',
    'config.clusters[0].id=main',
    'config.clusters[0].pools[0].model=m',
    'config.clusters[0].pools[0].slo.ttft_ms=5000',
    'config.clusters[0].pools[0].engines[0].id=a',
    'config.clusters[0].pools[0].engines[0].url=http://a:8000',
  ]

  it('the Helm chart scales by the capacity that the gateway reports to KEDA, at a port that its Service has', () => {
    const pool = [
      'target=a',
      'model=m',
      'minReplicas=0',
      'maxReplicas=3',
      'trigger=external-push',
      'role=decode',
      'stabilizationSeconds=60',
    ]
    const objects = rendered('keda.enabled=true', ...withSlo, ...pool.map((one) => `keda.pools[0].${one}`))
    const [trigger] = named(objects, 'ScaledObject')['spec'].triggers as Fields[]
    expect(trigger).toEqual({
      type: 'external-push',
      metadata: { scalerAddress: 'x-firstlight.llm.svc:9004', model: 'm', role: 'decode' },
    })
    expect(named(objects, 'ScaledObject')['spec'].advanced.horizontalPodAutoscalerConfig.behavior.scaleDown).toEqual({
      stabilizationWindowSeconds: 60,
    })
    const { keda } = configOf(yamlOf(named(objects, 'ConfigMap')['data']['firstlight.yaml']))
    expect(keda?.listen.port).toBe(9004)
    const service = named(objects, 'Service')
    expect(service['metadata'].name).toBe('x-firstlight')
    expect(service['spec'].ports).toContainEqual({ name: 'scaler', port: 9004, targetPort: 'scaler' })
  })

  it('the Helm chart opens the ports of the endpoint picker and the scaler only if they are configured', () => {
    const portsOf = (...sets: string[]): readonly unknown[] => {
      const objects = rendered('networkPolicy.enabled=true', ...sets)
      const [container] = named(objects, 'Deployment')['spec'].template.spec.containers as Fields[]
      return [
        container!['ports'].map(({ name }: Fields) => name),
        named(objects, 'Service')['spec'].ports.map(({ name }: Fields) => name),
        named(objects, 'NetworkPolicy')['spec'].ingress[0].ports.map(({ port }: Fields) => port),
      ]
    }
    expect(portsOf()).toEqual([['http'], ['http'], ['http']])
    const names = ['http', 'picker', 'scaler']
    expect(portsOf(...withSlo, 'config.epp.tls=off')).toEqual([names, names, names])
  })

  it('the Helm chart keeps the data of Valkey on a volume only with persistence', () => {
    const valkey = (...sets: string[]): Fields =>
      rendered('valkey.enabled=true', ...sets).find(
        ({ kind, metadata }) => kind === 'Deployment' && /valkey/.test(metadata.name),
      )!['spec'].template.spec
    const argsOf = ({ containers }: Fields): string => containers[0].args.join(' ')
    expect(argsOf(valkey())).toContain('--appendonly no')
    expect(valkey()['volumes']).toEqual([{ name: 'data', emptyDir: {} }])
    const kept = valkey('valkey.persistence.enabled=true')
    expect(argsOf(kept)).toContain('--appendonly yes')
    expect(kept['volumes'][0].persistentVolumeClaim.claimName).toBe('x-firstlight-valkey')
    const claim = named(rendered('valkey.enabled=true', 'valkey.persistence.enabled=true'), 'PersistentVolumeClaim')
    expect(claim['metadata'].name).toBe('x-firstlight-valkey')
    expect(claim['spec'].resources.requests.storage).toBe('1Gi')
  })

  it('the Helm chart has one replica by default, which needs no Valkey server', () => {
    const objects = rendered()
    expect(named(objects, 'Deployment')['spec'].replicas).toBe(1)
    expect(objects.filter(({ kind }) => kind === 'Deployment')).toHaveLength(1)
  })

  it('the Helm chart grants nothing but list and watch of pods', () => {
    const objects = rendered(...all)
    expect(named(objects, 'Role')['rules']).toEqual([
      { apiGroups: [''], resources: ['pods'], verbs: ['list', 'watch'] },
    ])
    expect(objects.filter(({ kind }) => String(kind).startsWith('ClusterRole'))).toEqual([])
    const elsewhere = rendered('engineNamespaces={a,b}').filter(({ kind }) => kind === 'RoleBinding')
    expect(elsewhere.map(({ metadata }) => metadata.namespace)).toEqual(['a', 'b'])
    expect(elsewhere[0]!['subjects'][0].namespace).toBe('llm')
  })

  it('the Helm chart runs every container without root, capabilities and a writable root file system', () => {
    const deployments = rendered(...all).filter(({ kind }) => kind === 'Deployment')
    expect(deployments).toHaveLength(2)
    for (const { spec } of deployments) {
      expect(spec.template.spec.securityContext.runAsNonRoot).toBe(true)
      expect(spec.template.spec.containers[0].securityContext).toEqual({
        allowPrivilegeEscalation: false,
        readOnlyRootFilesystem: true,
        capabilities: { drop: ['ALL'] },
      })
    }
  })

  it('the Helm chart has Services and a disruption budget whose selectors match the pods', () => {
    const objects = rendered(...all)
    const { labels } = named(objects, 'Deployment')['spec'].template.metadata as Fields
    const services = objects.filter(({ kind, metadata }) => kind === 'Service' && !/valkey/.test(metadata.name))
    expect(services.map(({ spec }) => spec.clusterIP)).toEqual([undefined, 'None'])
    const selectors = [
      ...services.map(({ spec }) => spec.selector),
      ...['PodDisruptionBudget', 'PodMonitor'].map((kind) => named(objects, kind)['spec'].selector.matchLabels),
      named(objects, 'NetworkPolicy')['spec'].podSelector.matchLabels,
    ]
    for (const selector of selectors) expect(labels).toMatchObject(selector as object)
  })

  it('the Helm chart lets streams pass an Ingress and an HTTPRoute without buffers and time limits', () => {
    const objects = rendered(...all)
    expect(named(objects, 'Ingress')['metadata'].annotations).toMatchObject({
      'nginx.ingress.kubernetes.io/proxy-buffering': 'off',
    })
    expect(named(objects, 'HTTPRoute')['spec'].rules[0].timeouts).toEqual({ request: '0s', backendRequest: '0s' })
    // An autoscaler owns the number of replicas.
    expect(named(objects, 'Deployment')['spec'].replicas).toBeUndefined()
  })
})
