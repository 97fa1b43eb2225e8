/** A real kube-apiserver with etcd on loopback, without kubelets: the caller sets the status of pods. */
import { generateKeyPairSync } from 'node:crypto'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { request } from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { freePorts } from './http.ts'
import type { Processes } from './processes.ts'
import { inCache } from './standalone.ts'
import { until } from './until.ts'

const NAMESPACE = 'llm'
const ADMIN = 'admin-token'
const GATEWAY = 'gateway-token'

export interface ApiServer {
  /** File for the gateway: a user that may list and watch what the chart permits, and nothing else. */
  readonly kubeconfig: string
  readonly namespace: string
  /** Creates a pod that is ready at once. */
  addPod(name: string, ip: string, metadata?: PodMetadata): Promise<void>
  /** Marks a pod as terminating; without a kubelet it stays until `removePod`. */
  deletePod(name: string): Promise<void>
  /** Removes a pod, as a kubelet does when its containers have ended. */
  removePod(name: string): Promise<void>
  /** Sends a request as the administrator. Resolves with status and body. */
  request(call: Call): Promise<ApiAnswer>
  stop(): Promise<void>
}

export interface PodMetadata {
  readonly labels?: Readonly<Record<string, string>>
  readonly annotations?: Readonly<Record<string, string>>
}

export interface Call {
  readonly method: string
  readonly path: string
  /** A text is sent as it is. */
  readonly body?: object | string | undefined
  /** Absent: JSON. */
  readonly type?: string
}

export interface ApiAnswer {
  readonly status: number
  readonly body: string
}

/** Type of a PATCH that names the changed fields only. */
export const MERGE_PATCH = 'application/merge-patch+json'

export async function startApiServer({ processes }: { readonly processes: Processes }): Promise<ApiServer> {
  const folder = mkdtempSync(join(tmpdir(), 'apiserver-'))
  const [store, peer, port] = (await freePorts(3)) as [number, number, number]
  prepare(folder)
  const running = [
    processes.start({ what: 'etcd', command: etcd(folder, store, peer), folder }),
    processes.start({ what: 'kube-apiserver', command: apiServer(folder, store, port), folder }),
  ]
  const certificate = join(folder, 'certs/apiserver.crt')
  const call = (what: Call): Promise<ApiAnswer> => send(port, certificate, what)
  await until(async () => {
    if (running.some((one) => one.exitCode() !== null)) throw new Error(running.map((one) => one.tail(10)).join('\n'))
    return (await call({ method: 'GET', path: '/readyz' }).catch(() => null))?.status === 200
  }, 'the API server')
  await allow(call)
  const pods = `/api/v1/namespaces/${NAMESPACE}/pods`
  const must = async (what: Call, statuses = [200, 201]) => {
    const { status, body } = await call(what)
    if (!statuses.includes(status)) throw new Error(`${what.method} ${what.path}: ${status} ${body.slice(0, 300)}`)
  }
  return {
    kubeconfig: kubeconfigOf(folder, port, certificate),
    namespace: NAMESPACE,
    async addPod(name, ip, metadata) {
      await must({ method: 'POST', path: pods, body: podOf(name, metadata) })
      const status = { status: readyAt(ip) }
      await must({ method: 'PATCH', path: `${pods}/${name}/status`, body: status, type: MERGE_PATCH })
    },
    deletePod: (name) =>
      must({ method: 'DELETE', path: `${pods}/${name}`, body: { gracePeriodSeconds: 30 } }, [200, 202]),
    removePod: (name) =>
      must({ method: 'DELETE', path: `${pods}/${name}`, body: { gracePeriodSeconds: 0 } }, [200, 404]),
    request: call,
    async stop() {
      for (const one of running.toReversed()) await one.stop()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

function prepare(folder: string): void {
  mkdirSync(join(folder, 'certs'))
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
  writeFileSync(join(folder, 'sa.key'), privateKey.export({ type: 'pkcs1', format: 'pem' }))
  writeFileSync(join(folder, 'tokens.csv'), `${ADMIN},admin,1,"system:masters"\n${GATEWAY},gateway,2,"gateways"\n`)
}

const etcd = (folder: string, store: number, peer: number): string[] => [
  inCache('kubernetes', 'etcd'),
  `--data-dir=${folder}/etcd`,
  `--listen-client-urls=http://127.0.0.1:${store}`,
  `--advertise-client-urls=http://127.0.0.1:${store}`,
  `--listen-peer-urls=http://127.0.0.1:${peer}`,
  `--initial-advertise-peer-urls=http://127.0.0.1:${peer}`,
  `--initial-cluster=default=http://127.0.0.1:${peer}`,
  '--unsafe-no-fsync',
]

const apiServer = (folder: string, store: number, port: number): string[] => [
  inCache('kubernetes', 'kube-apiserver'),
  `--etcd-servers=http://127.0.0.1:${store}`,
  `--secure-port=${port}`,
  '--bind-address=127.0.0.1',
  '--advertise-address=127.0.0.1',
  '--endpoint-reconciler-type=none',
  `--cert-dir=${folder}/certs`,
  `--token-auth-file=${folder}/tokens.csv`,
  '--authorization-mode=RBAC',
  '--service-account-issuer=https://kubernetes.default.svc',
  `--service-account-key-file=${folder}/sa.key`,
  `--service-account-signing-key-file=${folder}/sa.key`,
  '--service-cluster-ip-range=10.0.0.0/24',
  // No controller creates the namespace's default account.
  '--disable-admission-plugins=ServiceAccount',
]

function send(port: number, certificate: string, what: Call): Promise<ApiAnswer> {
  const { method, path, body, type = 'application/json' } = what
  return new Promise((resolve, reject) => {
    const sentBody = body === undefined ? '' : typeof body === 'string' ? body : JSON.stringify(body)
    // Node sends the body of a DELETE without a length unless it is named.
    const length = sentBody === '' ? {} : { 'content-length': Buffer.byteLength(sentBody) }
    const headers = { authorization: `Bearer ${ADMIN}`, 'content-type': type, ...length }
    const ca = readFileSync(certificate)
    const sent = request({ host: '127.0.0.1', port, path, method, headers, ca }, (response) => {
      void text(response).then((received) => resolve({ status: response.statusCode!, body: received }), reject)
    })
    sent.once('error', reject)
    sent.end(sentBody)
  })
}

/** Rights of the chart's Role. */
const RULES = [
  { apiGroups: [''], resources: ['pods'], verbs: ['list', 'watch'] },
  { apiGroups: ['inference.networking.k8s.io'], resources: ['inferencepools'], verbs: ['list', 'watch'] },
  { apiGroups: ['llm-d.ai'], resources: ['inferenceobjectives'], verbs: ['list', 'watch'] },
]

async function allow(call: (what: Call) => Promise<ApiAnswer>): Promise<void> {
  const metadata = { name: 'gateway' }
  const rbac = `/apis/rbac.authorization.k8s.io/v1/namespaces/${NAMESPACE}`
  await call({ method: 'POST', path: '/api/v1/namespaces', body: { metadata: { name: NAMESPACE } } })
  await call({ method: 'POST', path: `${rbac}/roles`, body: { metadata, rules: RULES } })
  const roleRef = { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: 'gateway' }
  const subjects = [{ kind: 'Group', name: 'gateways', apiGroup: 'rbac.authorization.k8s.io' }]
  await call({ method: 'POST', path: `${rbac}/rolebindings`, body: { metadata, roleRef, subjects } })
}

function kubeconfigOf(folder: string, port: number, certificate: string): string {
  const file = join(folder, 'kubeconfig')
  const cluster = { server: `https://127.0.0.1:${port}`, 'certificate-authority': certificate }
  const document = {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: 'lab', cluster }],
    users: [{ name: 'gateway', user: { token: GATEWAY } }],
    contexts: [{ name: 'lab', context: { cluster: 'lab', user: 'gateway', namespace: NAMESPACE } }],
    'current-context': 'lab',
  }
  writeFileSync(file, JSON.stringify(document))
  return file
}

const podOf = (name: string, { labels = { app: 'vllm' }, annotations = {} }: PodMetadata = {}): object => ({
  metadata: { name, labels, annotations },
  spec: {
    automountServiceAccountToken: false,
    nodeName: 'lab',
    containers: [{ name: 'vllm', image: 'x', ports: [{ name: 'http', containerPort: 8000 }] }],
  },
})

const readyAt = (ip: string): object => ({
  phase: 'Running',
  podIP: ip,
  podIPs: [{ ip }],
  conditions: [{ type: 'Ready', status: 'True' }],
})
