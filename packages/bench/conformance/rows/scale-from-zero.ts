/** A Deployment that is scaled from zero and to zero by the metric that the gateway publishes. */
import { type ApiServer, MERGE_PATCH, startApiServer } from '../api-server.ts'
import { EnginePods } from '../engine-pods.ts'
import { check, type Lab, type Row } from '../row.ts'
import { missingIn, serveAlone, using, type StandaloneGateway } from '../standalone.ts'
import { until } from '../until.ts'

const WAITING = 'firstlight_pool_waiting_requests'
const REQUESTS = 12
/** Requests for which the scaler starts one engine. */
const REQUESTS_PER_ENGINE = 4
const MAX_REPLICAS = 3
/** Until a new pod is ready. */
const START_MS = 1_500
const POLL_MS = 200

interface World {
  readonly api: ApiServer
  readonly engines: EnginePods
  readonly gateway: StandaloneGateway
}

/** What KEDA, the Deployment's controller and the kubelets do in a cluster, each with its part of the API. */
class Cluster {
  readonly #world: World
  readonly #path: string
  #started = 0
  #present: string[] = []
  maxReplicas = 0

  constructor(world: World) {
    this.#world = world
    this.#path = `/apis/apps/v1/namespaces/${world.api.namespace}/deployments`
  }

  get pods(): number {
    return this.#present.length
  }

  async deploy(): Promise<void> {
    const labels = { app: 'vllm' }
    const template = { metadata: { labels }, spec: { containers: [{ name: 'vllm', image: 'x' }] } }
    const spec = { replicas: 0, selector: { matchLabels: labels }, template }
    const body = { apiVersion: 'apps/v1', kind: 'Deployment', metadata: { name: 'vllm' }, spec }
    const { status, body: answer } = await this.#world.api.request({ method: 'POST', path: this.#path, body })
    check(status === 201, `the Deployment was refused: ${status} ${answer.slice(0, 300)}`)
  }

  /** Sets the replicas by the metric: more while requests wait, none when none wait or run. */
  async scale(): Promise<void> {
    const { gateway, engines, api } = this.#world
    const waiting = (await gateway.metric(WAITING, '')) ?? 0
    const wanted = Math.min(MAX_REPLICAS, Math.ceil(waiting / REQUESTS_PER_ENGINE))
    const present = await this.#replicas()
    const replicas = waiting + engines.running === 0 ? 0 : Math.max(present, wanted)
    if (replicas === present) return
    this.maxReplicas = Math.max(this.maxReplicas, replicas)
    const path = `${this.#path}/vllm/scale`
    const { status } = await api.request({ method: 'PATCH', path, body: { spec: { replicas } }, type: MERGE_PATCH })
    check(status === 200, `the scale was refused: ${status}`)
  }

  /** Creates or removes pods until there are as many as the Deployment says. */
  async follow(): Promise<void> {
    const { api, engines } = this.#world
    const replicas = await this.#replicas()
    while (this.#present.length < replicas) {
      const serial = this.#started++
      const name = `vllm-${serial}`
      this.#present.push(name)
      await new Promise((resolve) => setTimeout(resolve, START_MS))
      engines.add(name, `127.4.0.${serial + 1}`)
      await api.addPod(name, `127.4.0.${serial + 1}`)
    }
    while (this.#present.length > replicas) {
      const name = this.#present.pop()!
      await api.deletePod(name)
      engines.end(name)
      await api.removePod(name)
    }
  }

  async #replicas(): Promise<number> {
    const { body } = await this.#world.api.request({ method: 'GET', path: `${this.#path}/vllm/scale` })
    return (JSON.parse(body) as { readonly spec: { readonly replicas?: number } }).spec.replicas ?? 0
  }
}

async function fromZero(lab: Lab): Promise<string> {
  const engines = new EnginePods()
  const port = await engines.open()
  try {
    return await using(await startApiServer(lab), (api) => {
      const kubernetes = { namespace: api.namespace, selector: 'app=vllm' }
      const engine = { id: 'vllm', url: `http://pods:${port}`, discover: 'kubernetes', kubernetes }
      const pool = { model: 'm', queue: { no_engine_wait_ms: 120_000 }, engines: [engine] }
      return serveAlone(
        lab,
        'from-zero',
        { clusters: [{ id: 'lab', pools: [pool] }] },
        { KUBECONFIG: api.kubeconfig },
      ).then((started) => using(started, (gateway) => twoWaves({ api, engines, gateway })))
    })
  } finally {
    engines.close()
  }
}

async function twoWaves(world: World): Promise<string> {
  const cluster = new Cluster(world)
  await cluster.deploy()
  const ticks = new AbortController()
  const scaler = (async () => {
    while (!ticks.signal.aborted) {
      await cluster.scale()
      await cluster.follow()
      await new Promise((resolve) => setTimeout(resolve, POLL_MS))
    }
  })()
  const waits: number[] = []
  try {
    for (const wave of [1, 2]) {
      const began = performance.now()
      const answers = await Promise.race([sendAll(world.gateway, wave), scaler.then(() => [])])
      waits.push(Math.round(performance.now() - began))
      const failed = answers.filter(({ status }) => status !== 200)
      check(failed.length === 0, `wave ${wave}: ${failed.length} failed: ${failed[0]?.status} ${failed[0]?.text}`)
      await until(async () => cluster.pods === 0, 'the Deployment to have no pods')
    }
  } finally {
    ticks.abort()
    await scaler
  }
  return (
    `two waves of ${REQUESTS} requests found no pod, waited, and were all served after ${waits.join(' and ')} ms; the ` +
    `Deployment went from 0 to ${cluster.maxReplicas} replicas and back by ${WAITING}`
  )
}

const sendAll = (gateway: StandaloneGateway, wave: number) =>
  Promise.all(
    Array.from({ length: REQUESTS }, async (_, at) => {
      const { status, body } = await gateway.post('/v1/completions', {
        model: 'm',
        prompt: `wave ${wave}, prompt ${at}`,
        max_tokens: 1,
      })
      return { status, text: body.toString().slice(0, 200) }
    }),
  )

export const scaleFromZeroRow: Row = {
  name: 'kubernetes-from-zero',
  says:
    'With a real kube-apiserver, requests without an engine wait, the published metric scales a Deployment from zero, all ' +
    'of them are served, and it returns to zero.',
  missing: () => missingIn('kubernetes', ['kube-apiserver', 'etcd'], 'build-apiserver.sh'),
  run: fromZero,
}
