/** Authorisation for the registry. LMCache servers send no headers, so a token may be in the path. */
import { Failure } from '../../failure.ts'
import type { PoolRoute } from '../../origin/pool-route.ts'
import { bearer } from '../auth/bearer.ts'
import { KeyStore } from '../auth/key-store.ts'
import type { Config } from '../../config.ts'
import type { Authenticator } from '../auth/authenticator.ts'
import type { ModelRegistry } from '../model-registry.ts'
import type { RequestContext } from '../request-context.ts'
import { idParam } from '../path-id.ts'
import type { RegistryPath } from './registry-path.ts'

export interface RegistryAccessParts {
  readonly config: Pick<Config, 'admin'>
  readonly models: Pick<ModelRegistry, 'routes'>
  readonly authenticator: Pick<Authenticator, 'admin'>
}

/**
 * Returns the registries of a cluster that this server may use. Fails with `not_found`, `key_missing` or `key_wrong`.
 */
export async function admitServer(
  parts: RegistryAccessParts,
  { request }: RequestContext,
  { cluster, token, id, route }: RegistryPath,
): Promise<readonly PoolRoute[]> {
  const registries = parts.models.routes.filter(
    (one) => one.cluster.id === cluster && one.pool.lmcache?.registry === true,
  )
  const secret = token ?? bearer(request.headers)
  const accessible = secret === null ? null : await keyStoreOf(parts).find(secret)
  const permitted = registries.filter((one) => accessible?.includes(one) === true)
  if (route.includes(':id')) idParam(id, 'instance')
  if (permitted.length > 0) return permitted
  if (token !== null)
    throw new Failure('key_wrong', 'Invalid LMCache token. It must equal `lmcache.token` of the cluster.')
  await parts.authenticator.admin(request.headers)
  // If the admin API needs no key, a configured token is still required.
  const admitted =
    parts.config.admin === null ? registries.filter(({ pool }) => pool.lmcache?.token === null) : registries
  if (admitted.length > 0) return admitted
  if (registries.length > 0)
    throw new Failure(
      'key_missing',
      'The token is missing. Send lmcache.token as `authorization: Bearer`, or in the path after the cluster.',
    )
  throw new Failure(
    'not_found',
    `No pool of the cluster '${cluster}' is a registry. Set lmcache: { registry: true } on one.`,
  )
}

const keyStores = new WeakMap<object, KeyStore<readonly PoolRoute[]>>()

/** Created at the first use, one per gateway. */
function keyStoreOf(parts: RegistryAccessParts): KeyStore<readonly PoolRoute[]> {
  const known = keyStores.get(parts.models)
  if (known !== undefined) return known
  const bySecret = new Map<string, PoolRoute[]>()
  for (const route of parts.models.routes) {
    const secret = route.pool.lmcache?.registry === true ? route.pool.lmcache.token : null
    if (secret !== null) bySecret.set(secret, [...(bySecret.get(secret) ?? []), route])
  }
  const keyStore = new KeyStore<readonly PoolRoute[]>([...bySecret].map(([secret, holder]) => ({ secret, holder })))
  keyStores.set(parts.models, keyStore)
  return keyStore
}
