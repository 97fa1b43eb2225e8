/** `discover: inferencepool` and `epp.read_objectives` with a real API server and the resource definitions. */
import { type ApiServer, startApiServer } from '../api-server.ts'
import { EnginePods } from '../engine-pods.ts'
import { InferenceResources } from '../inference-resources.ts'
import { send } from '../http.ts'
import { check, type Lab, type Row } from '../row.ts'
import { missingIn, serveAlone, using, type StandaloneGateway } from '../standalone.ts'
import { until } from '../until.ts'

const ADMIN = 'admin-key-of-the-row'
const AUTHORIZED = { authorization: `Bearer ${ADMIN}` }

const CLIENTS = 4
const REPLACED_PODS = 10

interface World {
  readonly api: ApiServer
  readonly engines: EnginePods
  /** Ports of the two ranks of a pod. */
  readonly ports: readonly [number, number]
  readonly gateway: StandaloneGateway
}

async function withPools(lab: Lab): Promise<string> {
  const engines = new EnginePods()
  try {
    const ports = [await engines.open(), await engines.open()] as const
    return await using(await startApiServer(lab), async (api) => {
      const pools = new InferenceResources(api)
      await pools.define()
      const engine = {
        id: 'vllm',
        url: `http://pods:${ports[0]}`,
        discover: 'inferencepool',
        kubernetes: { namespace: api.namespace, pool: 'qwen' },
      }
      const document = {
        admin: { secret: ADMIN },
        open: true,
        epp: { listen: '127.0.0.1:0', tls: 'off', read_objectives: true },
        clusters: [{ id: 'lab', pools: [{ model: 'm', policy: 'round_robin', engines: [engine] }] }],
      }
      return using(await serveAlone(lab, 'inferencepool', document, { KUBECONFIG: api.kubeconfig }), (gateway) =>
        follow({ api, engines, ports, gateway }, pools),
      )
    })
  } finally {
    engines.close()
  }
}

const ask = (gateway: StandaloneGateway) => gateway.post('/v1/completions', { model: 'm', prompt: 'x', max_tokens: 1 })

async function malformedIn({ url }: StandaloneGateway): Promise<number> {
  const { body } = await send({ url, method: 'GET', path: '/metrics', headers: AUTHORIZED })
  return Number(/^firstlight_malformed_resources (\d+)$/m.exec(body.toString())?.[1] ?? -1)
}

/** Engines without the id of their entry: an address, and the port if it is not that of the entry. */
async function enginesOf({ url }: StandaloneGateway): Promise<string> {
  const { body } = await send({ url, method: 'GET', path: '/v1/firstlight/fleet', headers: AUTHORIZED })
  const { pools } = JSON.parse(body.toString()) as { readonly pools: { readonly engines: { readonly id: string }[] }[] }
  return pools
    .flatMap(({ engines }) => engines.map(({ id }) => id.replace('vllm-', '')))
    .toSorted()
    .join(' ')
}

async function follow(world: World, pools: InferenceResources): Promise<string> {
  const { engines, ports, gateway } = world
  const [first, second] = ports
  const are = async (what: string, ...expected: readonly string[]): Promise<void> => {
    const all = expected.toSorted().join(' ')
    let seen = ''
    await until(async () => (seen = await enginesOf(gateway)) === all, what).catch(() =>
      check(false, `${what}: the engines are ${seen}, not ${all}`),
    )
  }
  const both = (ip: string): string[] => [ip, `${ip}_${second}`]
  check((await ask(gateway)).status === 503, 'requests were served before there was a pool')
  for (const number of [1, 2]) await addPod(world, `pod-${number}`, `127.3.0.${number}`)
  check((await pools.create(ports)).status === 201, 'the pool was refused')
  await are('each target port is an engine of each pod', ...both('127.3.0.1'), ...both('127.3.0.2'))
  await addPod(world, 'other', '127.3.0.9', { labels: { app: 'other' } })
  await sharedAddress(world, are, [...both('127.3.0.1'), ...both('127.3.0.2')])
  await malformed(world, pools)
  await are('nothing that works has changed', ...both('127.3.0.1'), ...both('127.3.0.2'))
  const served = await replaceUnderLoad(world)
  await are('the last pod is there', ...both(ipOf(REPLACED_PODS - 1)))
  await pools.change({ targetPorts: [{ number: second }] })
  await are('a changed port', `${ipOf(REPLACED_PODS - 1)}_${second}`)
  check((await ask(gateway)).status === 200, 'a request failed after the change of the ports')
  const { metadata, status } = JSON.parse((await pools.read()).body) as {
    readonly metadata: { readonly managedFields: object[] }
    readonly status?: unknown
  }
  check(metadata.managedFields.length === 1, 'the pool was written by two clients')
  check(!JSON.stringify(status ?? {}).includes('firstlight'), 'the status of the pool names the gateway')
  await pools.remove()
  await are('a deleted pool has no engines')
  check((await ask(gateway)).status === 503, 'a deleted pool served a request')
  check((await pools.create([first])).status === 201, 'the new pool was refused')
  await until(async () => (await ask(gateway)).status === 200, 'the pool to serve again')
  check(engines.running === 0, `${engines.running} requests still run`)
  return (
    `2 pods with 2 target ports are 4 engines; 2 pods at one address are 2; ${served} requests without an error while ` +
    `${REPLACED_PODS} pods were replaced one by one; 3 malformed pools and an objective changed nothing; ports, deletion and a new pool are followed`
  )
}

async function addPod(
  { api, engines }: World,
  name: string,
  ip: string,
  metadata?: Parameters<ApiServer['addPod']>[2],
) {
  engines.add(name, ip)
  await api.addPod(name, ip, { labels: { app: 'vllm' }, ...metadata })
}

async function removePod({ api, engines }: World, name: string): Promise<void> {
  await api.deletePod(name)
  engines.end(name)
  await api.removePod(name)
}

const active = (port: number) => ({ annotations: { 'inference.networking.k8s.io/active-ports': String(port) } })

/** Two pods of one node's network: each has one of the ports. */
async function sharedAddress(
  world: World,
  are: (what: string, ...expected: readonly string[]) => Promise<void>,
  others: readonly string[],
): Promise<void> {
  const ip = '127.3.1.1'
  const [first, second] = world.ports
  await addPod(world, 'host-a', ip, active(first))
  await addPod(world, 'host-b', ip, active(second))
  await are('pods that share an address are engines by their ports', ...others, ip, `${ip}_${second}`)
  await world.api.deletePod('host-a')
  await are('one of two pods at an address goes', ...others, `${ip}_${second}`)
  await world.api.removePod('host-a')
  await removePod(world, 'host-b')
  await are('the other one goes', ...others)
}

/** Resources that the API server or the gateway refuses. */
async function malformed({ ports, gateway }: World, pools: InferenceResources): Promise<void> {
  const [first] = ports
  const refused = [{ targetPorts: [{ number: first }, { number: first }] }, { targetPorts: [{ number: 70_000 }] }]
  for (const spec of refused) {
    const { status } = await pools.change(spec)
    check(status === 422, `the API server answered ${status} to ${JSON.stringify(spec)}`)
  }
  const count = (): Promise<number> => malformedIn(gateway)
  check((await pools.change({ appProtocol: 'kubernetes.io/h2c' })).status === 200, 'h2c was refused')
  await until(async () => (await count()) === 1, 'the pool to be reported as malformed')
  check((await ask(gateway)).status === 200, 'a malformed pool cost a request')
  await pools.setObjective('interactive', 'high')
  await until(async () => (await count()) === 2, 'the objective to be reported as malformed')
  await pools.setObjective('interactive', 10)
  await pools.change({ appProtocol: 'http' })
  await until(async () => (await count()) === 0, 'the corrected resources to be used')
}

const ipOf = (number: number): string => `127.3.2.${number + 1}`

/** One pod comes, then one goes. Resolves with the number of requests. */
async function replaceUnderLoad(world: World): Promise<number> {
  const end = new AbortController()
  const problems: string[] = []
  let served = 0
  const client = async (): Promise<void> => {
    while (!end.signal.aborted) {
      const { status, body } = await ask(world.gateway)
      if (status === 200) served++
      else problems.push(`${status} ${body.toString().slice(0, 200)}`)
    }
  }
  const clients = Array.from({ length: CLIENTS }, client)
  const present = ['pod-1', 'pod-2']
  for (let number = 0; number < REPLACED_PODS; number++) {
    await addPod(world, `new-${number}`, ipOf(number))
    present.push(`new-${number}`)
    await until(async () => (await enginesOf(world.gateway)).split(' ').includes(ipOf(number)), 'the new pod')
    const old = present.shift()!
    await world.api.deletePod(old)
    const { ip } = world.engines.pods.get(old)!
    await until(
      async () => !(await enginesOf(world.gateway)).split(' ').some((one) => one === ip || one.startsWith(`${ip}_`)),
      'its end',
    )
    await until(async () => world.engines.pods.get(old)!.running === 0, 'its requests to end')
    await removePod(world, old)
  }
  end.abort()
  await Promise.all(clients)
  await removePod(world, present.shift()!)
  check(problems.length === 0, `${problems.length} requests failed: ${problems[0]}`)
  return served
}

export const inferencePoolRow: Row = {
  name: 'kubernetes-inferencepool',
  says:
    'With a real kube-apiserver and the definition of InferencePools, pods that come, go and share addresses, target ports, ' +
    'malformed resources and deletion have the documented effect, and nothing is written.',
  missing: () => missingIn('kubernetes', ['kube-apiserver', 'etcd', 'inferencepools.yaml'], 'build-apiserver.sh'),
  run: withPools,
}
