/** `discover: kubernetes` with a real API server, and pods that come and go under load. */
import { setTimeout as sleep } from 'node:timers/promises'
import { startApiServer, type ApiServer } from '../api-server.ts'
import { EnginePods } from '../engine-pods.ts'
import { check, type Lab, type Row } from '../row.ts'
import { missingIn, serveAlone, using, type StandaloneGateway } from '../standalone.ts'
import { until } from '../until.ts'

const PODS = 50
const CLIENTS = 16
const CHURN_S = 30
/** Interval of one pod that goes and one that comes. */
const CHURN_MS = 300
/** Time after which a deleted pod gets no new request. */
const GONE_MS = 100
/** Time within which a new pod is used. */
const READY_MS = 1000
/** Time that a terminating pod still serves, as during a grace period. */
const GRACE_MS = 1000

interface Load {
  served: number
  readonly errors: string[]
}

async function send(gateway: StandaloneGateway, load: Load, isDone: () => boolean): Promise<void> {
  for (let turn = 0; !isDone(); turn++) {
    const answer = await gateway
      .post('/v1/completions', { model: 'm', prompt: `prompt ${turn}`, max_tokens: 1 })
      .catch((error: Error) => error)
    if ('status' in answer && answer.status === 200) load.served++
    else
      load.errors.push('status' in answer ? `${answer.status} ${answer.body.toString().slice(0, 200)}` : answer.message)
    await sleep(20)
  }
}

const ipOf = (number: number): string => `127.1.${Math.floor(number / 200)}.${(number % 200) + 1}`

async function churn(api: ApiServer, fleet: EnginePods): Promise<number> {
  const endsAt = performance.now() + CHURN_S * 1000
  let next = PODS
  const ends: Promise<void>[] = []
  const failures: string[] = []
  while (performance.now() < endsAt) {
    const alive = [...fleet.pods].filter(([, pod]) => pod.deletedAt === null).map(([name]) => name)
    const name = alive[next % alive.length]!
    await api.deletePod(name)
    fleet.pods.get(name)!.deletedAt = performance.now()
    ends.push(
      sleep(GRACE_MS).then(async () => {
        fleet.end(name)
        await api.removePod(name).catch((error: Error) => failures.push(error.message))
      }),
    )
    const ip = ipOf(next)
    // The process listens before the pod is ready.
    const added = fleet.add(`pod-${next}`, ip)
    await api.addPod(`pod-${next}`, ip)
    added.readyAt = performance.now()
    next++
    await sleep(CHURN_MS)
  }
  await Promise.all(ends)
  check(failures.length === 0, `the API server: ${failures[0]}`)
  return next - PODS
}

async function comeAndGo(lab: Lab): Promise<string> {
  const fleet = new EnginePods()
  const port = await fleet.open()
  try {
    return await using(await startApiServer(lab), async (api) => {
      for (let number = 0; number < PODS; number++) {
        fleet.add(`pod-${number}`, ipOf(number))
        await api.addPod(`pod-${number}`, ipOf(number))
      }
      const engine = {
        id: 'vllm',
        url: `http://pods:${port}`,
        discover: 'kubernetes',
        kubernetes: { namespace: api.namespace, selector: 'app=vllm' },
      }
      const document = { clusters: [{ id: 'lab', pools: [{ model: 'm', policy: 'round_robin', engines: [engine] }] }] }
      return using(await serveAlone(lab, 'kubernetes', document, { KUBECONFIG: api.kubeconfig }), (gateway) =>
        underLoad(gateway, api, fleet),
      )
    })
  } finally {
    fleet.close()
  }
}

async function underLoad(gateway: StandaloneGateway, api: ApiServer, fleet: EnginePods): Promise<string> {
  const used = () => [...fleet.pods.values()].filter(({ firstRequestAt }) => firstRequestAt !== null).length
  const load: Load = { served: 0, errors: [] }
  const probe = () => gateway.post('/v1/completions', { model: 'm', prompt: 'x', max_tokens: 1 })
  await until(async () => (await probe()).status === 200 && used() > PODS / 2, 'half of the pods')
  let isDone = false
  const clients = Array.from({ length: CLIENTS }, () => send(gateway, load, () => isDone))
  const changes = await churn(api, fleet).finally(async () => {
    isDone = true
    await Promise.all(clients)
  })
  const pods = [...fleet.pods.values()]
  const late = pods.filter(({ deletedAt, lastRequestAt }) => deletedAt !== null && lastRequestAt > deletedAt + GONE_MS)
  const waits = pods
    .slice(PODS)
    .flatMap(({ readyAt, firstRequestAt }) => (firstRequestAt === null ? [] : [firstRequestAt - readyAt]))
  check(load.errors.length === 0, `${load.errors.length} of ${load.served} requests failed: ${load.errors[0]}`)
  check(late.length === 0, `${late.length} pods got requests more than ${GONE_MS} ms after their deletion`)
  const longest = Math.round(Math.max(...waits))
  check(longest <= READY_MS, `a new pod was first used ${longest} ms after it was ready`)
  return (
    `${load.served} requests, 0 errors; ${changes} pods deleted and ${changes} added among ${PODS} in ${CHURN_S} s; none ` +
    `got a request more than ${GONE_MS} ms after its deletion; new pods first used after ${longest} ms at most`
  )
}

export const kubernetesRows: readonly Row[] = [
  {
    name: 'kubernetes-churn',
    says:
      'With a real kube-apiserver, 50 pods come and go under load without an error for a client, a deleted pod gets no ' +
      'request 100 ms later, and a new one is used within 1 s.',
    missing: () => missingIn('kubernetes', ['kube-apiserver', 'etcd'], 'build-apiserver.sh'),
    run: comeAndGo,
  },
]
