/** `epp.read_objectives` with a real API server: resources set the class of requests that come through a real Envoy. */
import { freePort } from '../../epp/site.ts'
import { type ApiServer, startApiServer } from '../api-server.ts'
import { EnginePods } from '../engine-pods.ts'
import { send } from '../http.ts'
import { InferenceResources } from '../inference-resources.ts'
import { check, type Lab, type Row } from '../row.ts'
import { missingIn, serveAlone, type StandaloneGateway, using } from '../standalone.ts'
import { throughEnvoy } from '../through-envoy.ts'
import { until } from '../until.ts'

const ADMIN = 'admin-key-of-the-row'
const SECRET = 'secret-of-the-client'
const NAME = 'interactive'

/** Class of a request by the priority that its engine gets (`class_priority`). */
const CLASS_OF: Readonly<Record<string, string>> = { '-1': 'critical', none: 'standard', '1': 'sheddable' }

interface World {
  readonly engines: EnginePods
  readonly gateway: StandaloneGateway
  readonly resources: InferenceResources
  /** URL of Envoy. */
  readonly url: string
}

/** Class of a request with the objective. */
async function classOf({ engines, url }: World): Promise<string> {
  const headers = { authorization: `Bearer ${SECRET}`, 'x-llm-d-inference-objective': NAME }
  const body = { model: 'm', prompt: 'x', max_tokens: 1 }
  const answer = await send({ url, method: 'POST', path: '/v1/completions', headers, body })
  check(answer.status === 200, `${answer.status} ${answer.body.toString().slice(0, 200)}`)
  const { priority = 'none' } = JSON.parse(engines.lastBody) as { readonly priority?: number }
  return CLASS_OF[String(priority)] ?? `unknown: ${priority}`
}

const untilClass = (world: World, expected: string, when: string): Promise<number> =>
  until(async () => (await classOf(world)) === expected, `the class ${expected} ${when}`)

async function malformedIn({ gateway: { url } }: World): Promise<number> {
  const { body } = await send({ url, method: 'GET', path: '/metrics', headers: { authorization: `Bearer ${ADMIN}` } })
  return Number(/^firstlight_malformed_resources (\d+)$/m.exec(body.toString())?.[1] ?? -1)
}

async function follow(world: World): Promise<string> {
  const { resources } = world
  check((await classOf(world)) === 'critical', 'a request without an objective has another class than its key')
  await resources.setObjective(NAME, 0)
  await untilClass(world, 'standard', 'after an objective of priority 0 was created')
  await resources.setObjective(NAME, -5)
  await untilClass(world, 'sheddable', 'after the priority became -5')
  await resources.setObjective(NAME, 'high')
  await until(async () => (await malformedIn(world)) === 1, 'the malformed objective to be reported')
  check((await classOf(world)) === 'sheddable', 'a malformed objective changed the class')
  await resources.setObjective(NAME, 10)
  await untilClass(world, 'critical', 'after the priority became 10')
  await until(async () => (await malformedIn(world)) === 0, 'the corrected objective to be used')
  await resources.setObjective(NAME, -1)
  await untilClass(world, 'sheddable', 'after the priority became -1')
  await resources.removeObjective(NAME)
  await untilClass(world, 'critical', 'after the objective was deleted')
  return 'priorities 0, -5, 10 and -1 set the class of the next requests; a malformed one was reported and changed nothing; a deleted one gave the class of the key back'
}

async function withApi(lab: Lab, api: ApiServer, engines: EnginePods): Promise<string> {
  const resources = new InferenceResources(api)
  await resources.define()
  const port = await engines.open()
  const pickerPort = await freePort()
  const engine = {
    id: 'vllm',
    url: `http://pods:${port}`,
    discover: 'inferencepool',
    kubernetes: { namespace: api.namespace, pool: 'qwen' },
  }
  const document = {
    admin: { secret: ADMIN },
    keys: [{ name: 'client', secret: SECRET, class: 'critical' }],
    epp: { listen: `127.0.0.1:${pickerPort}`, tls: 'off', read_objectives: true },
    clusters: [{ id: 'lab', pools: [{ model: 'm', class_priority: true, engines: [engine] }] }],
  }
  check((await resources.create([port])).status === 201, 'the pool was refused')
  engines.add('pod', '127.3.4.1')
  await api.addPod('pod', '127.3.4.1', { labels: { app: 'vllm' } })
  const env = { KUBECONFIG: api.kubeconfig }
  return using(await serveAlone(lab, 'objectives', document, env), (gateway) =>
    throughEnvoy(pickerPort, 'full_duplex', async (url) => {
      const world: World = { engines, gateway, resources, url }
      await until(async () => (await classOf(world).catch(() => '')) !== '', 'the first answer through Envoy')
      return follow(world)
    }),
  )
}

async function run(lab: Lab): Promise<string> {
  const engines = new EnginePods()
  try {
    return await using(await startApiServer(lab), (api) => withApi(lab, api, engines))
  } finally {
    engines.close()
  }
}

export const objectivesRow: Row = {
  name: 'kubernetes-objectives',
  says:
    'With a real kube-apiserver and Envoy, InferenceObjectives that are created, changed and deleted change the class of ' +
    'requests, and a malformed one is reported and changes nothing.',
  missing: () =>
    missingIn('kubernetes', ['kube-apiserver', 'etcd', 'inferencepools.yaml'], 'build-apiserver.sh') ??
    missingIn('envoy', ['bin/envoy'], 'install-envoy.sh'),
  run,
}
