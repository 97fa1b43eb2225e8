/** Access to a Kubernetes API server: the service account of the gateway's pod, or a kubeconfig file. */
import { existsSync, readFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { dirname, join, resolve as resolvePath } from 'node:path'
import { parseYaml } from '../../../config/yaml.ts'
import { UsageError } from '../usage-error.ts'

export interface KubernetesAccess {
  /** Base URL of the API server. */
  readonly server: string
  readonly ca?: string | undefined
  /** Client certificate and key, PEM. */
  readonly cert?: string | undefined
  readonly key?: string | undefined
  /** Namespace of selections that name none. */
  readonly namespace: string
  /** Bearer token; null: none. It is read for every connection, because tokens of service accounts are rotated. */
  token(): string | null
}

type Env = Readonly<Record<string, string | undefined>>

const ACCOUNT = '/var/run/secrets/kubernetes.io/serviceaccount'

/**
 * Finds the access: in a pod its service account, else the file of KUBECONFIG or ~/.kube/config.
 * Throws if there is none or if it needs a program to get a token.
 */
export function kubernetesAccess(env: Env, account = ACCOUNT): KubernetesAccess {
  const host = env['KUBERNETES_SERVICE_HOST']
  if (host !== undefined && existsSync(join(account, 'token'))) {
    const read = (name: string) => readFileSync(join(account, name), 'utf8').trim()
    return {
      server: `https://${host.includes(':') ? `[${host}]` : host}:${env['KUBERNETES_SERVICE_PORT'] ?? '443'}`,
      ca: read('ca.crt'),
      namespace: read('namespace'),
      token: () => read('token'),
    }
  }
  const file = env['KUBECONFIG'] ?? join(env['HOME'] ?? homedir(), '.kube', 'config')
  if (!existsSync(file))
    throw new UsageError(
      `\`discover: kubernetes\` needs a service account or a kubeconfig file; ${file} does not exist.`,
      'In a cluster set automountServiceAccountToken: true. Elsewhere set KUBECONFIG.',
    )
  return fromKubeconfig(parseYaml(readFileSync(file, 'utf8')).value, file)
}

interface NamedEntry {
  readonly name?: string
  readonly [kind: string]: unknown
}

type Fields = Readonly<Record<string, unknown>>

function fromKubeconfig(document: unknown, file: string): KubernetesAccess {
  const kubeconfig = document as Fields
  const entry = (list: string, kind: string, name: unknown): Fields => {
    const found = (kubeconfig[list] as readonly NamedEntry[] | undefined)?.find((one) => one.name === name)
    if (found === undefined) throw invalidKubeconfig(file, `${list} has no entry "${String(name)}"`)
    return (found[kind] ?? {}) as Fields
  }
  const context = entry('contexts', 'context', kubeconfig['current-context'])
  const cluster = entry('clusters', 'cluster', context['cluster'])
  const user = entry('users', 'user', context['user'])
  if (user['exec'] !== undefined || user['auth-provider'] !== undefined)
    throw new UsageError(
      `${file}: the user gets tokens from a program or a provider, which the gateway does not run.`,
      'Use a token of a service account: kubectl create token NAME.',
    )
  const textOf = (from: Fields, name: string): string | undefined =>
    typeof from[name] === 'string' ? from[name] : undefined
  const pemOf = (from: Fields, name: string): string | undefined => {
    const data = textOf(from, `${name}-data`)
    if (data !== undefined) return Buffer.from(data, 'base64').toString()
    const path = textOf(from, name)
    return path === undefined ? undefined : readFileSync(resolvePath(dirname(file), path), 'utf8')
  }
  const server = textOf(cluster, 'server')
  if (server === undefined || !URL.canParse(server)) throw invalidKubeconfig(file, 'the cluster has no server URL')
  const tokenFile = textOf(user, 'tokenFile')
  return {
    server: server.replace(/\/+$/, ''),
    ca: pemOf(cluster, 'certificate-authority'),
    cert: pemOf(user, 'client-certificate'),
    key: pemOf(user, 'client-key'),
    namespace: textOf(context, 'namespace') ?? 'default',
    token: () =>
      tokenFile === undefined
        ? (textOf(user, 'token') ?? null)
        : readFileSync(resolvePath(dirname(file), tokenFile), 'utf8').trim(),
  }
}

const invalidKubeconfig = (file: string, what: string): UsageError =>
  new UsageError(`${file}: ${what}.`, 'Compare with the output of kubectl config view --minify.')
