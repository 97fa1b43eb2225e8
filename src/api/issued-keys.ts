/** `/v1/firstlight/keys`: an operator lists the keys of clients, and makes and revokes keys at run time. */
import type { Config, KeyConfig } from '../config.ts'
import { parseIssuedKey } from '../config/issued-key-body.ts'
import type { IssuedKey } from '../core/keys/issued-key.ts'
import { KEY_PREFIX } from '../core/keys/key-prefix.ts'
import type { KeyCounts, UsageByKey } from '../core/limits/key-usage.ts'
import { Failure } from '../failure.ts'
import type { Ports } from '../ports.ts'
import type { IssuedKeyStore } from '../ports/issued-keys.ts'
import { sha256 } from '../sha256.ts'
import { toSnakeCase } from '../snake-case.ts'
import { audit } from './audit.ts'
import type { Authenticator } from './auth/authenticator.ts'
import { readJson } from './body/body.ts'
import { aggregateCounts, type CountParts } from './group-queries.ts'
import { jsonResponse } from './json-response.ts'
import type { KeyRights, KeyRightsView, KeysView, KeyView, NewKeyView, RevokedKeyView } from './openapi/key.ts'
import type { CountsView } from './openapi/usage.ts'
import type { AllFields } from './openapi/view.ts'
import { idParam } from './path-id.ts'
import type { RequestContext } from './request-context.ts'

export interface IssuedKeyParts extends CountParts {
  readonly config: Pick<Config, 'keys' | 'teams' | 'clusters' | 'weightedModels' | 'issuedKeys'>
  readonly ports: Pick<Ports, 'log' | 'now' | 'newId' | 'issuedKeys'>
  readonly authenticator: Pick<Authenticator, 'issuedKeysChanged'>
}

/** Longest body of a new key, bytes. */
const BODY_BYTES = 65_536

/** Lists all keys of clients with their usage since the start. No secret and no hash is in the answer. */
export async function listKeys(parts: IssuedKeyParts, incoming: RequestContext): Promise<Response> {
  const [{ usage }, issued] = await Promise.all([aggregateCounts(parts), issuedKeys(parts)])
  const configured = (parts.config.keys ?? []).map((key) => configuredView(key, usage))
  const view: KeysView = {
    issued_keys: canIssue(parts),
    keys: [...configured, ...issued.map((key) => issuedView(key, usage))],
  }
  return jsonResponse(incoming, view)
}

/** Makes a key. The answer alone has its secret: only the hash is stored. */
export async function issueKey(parts: IssuedKeyParts, incoming: RequestContext): Promise<Response> {
  const store = storeOf(parts)
  const { json } = await readJson(incoming.request, { bodyBytes: BODY_BYTES })
  const { config, ports } = parts
  const requested = parseIssuedKey(json, config, ports.now())
  if ('rule' in requested) {
    const { path, value, rule } = requested
    const text = [path, value, rule].filter((part) => part !== null && part !== '').join(': ')
    throw new Failure('bad_value', text.endsWith('?') ? text : `${text}.`, { param: path })
  }
  // Two ids have 244 random bits.
  const secret = KEY_PREFIX + (ports.newId() + ports.newId()).replaceAll('-', '')
  const key: IssuedKey = { ...requested, sha256: await sha256(secret), createdAt: ports.now() }
  const isConfigured = (config.keys ?? []).some(({ name }) => name === key.name)
  if (isConfigured || !(await reached(parts, () => store.add(key))))
    throw new Failure('bad_value', `name: ${JSON.stringify(key.name)}: there is a key with this name.`, {
      param: 'name',
    })
  parts.authenticator.issuedKeysChanged()
  audit(parts, incoming, { action: 'issue_key', name: key.name, owner: key.owner, team: key.team })
  const view: NewKeyView = { ...issuedView(key, {}), key: secret }
  return jsonResponse(incoming, view)
}

/** Revokes a key that was made at run time. Its running requests go on. */
export async function revokeKey(parts: IssuedKeyParts, incoming: RequestContext, id: string): Promise<Response> {
  const name = idParam(id, 'key')
  const store = storeOf(parts)
  if ((parts.config.keys ?? []).some((key) => key.name === name))
    throw new Failure('bad_value', `The key ${JSON.stringify(name)} is in the configuration: remove it there.`, {
      param: 'name',
    })
  if (!(await reached(parts, () => store.remove(name))))
    throw new Failure('not_found', 'There is no key with this name. GET /v1/firstlight/keys lists them.')
  parts.authenticator.issuedKeysChanged()
  audit(parts, incoming, { action: 'revoke_key', name })
  const view: RevokedKeyView = { name, revoked: true }
  return jsonResponse(incoming, view)
}

async function issuedKeys(parts: IssuedKeyParts): Promise<readonly IssuedKey[]> {
  const store = parts.config.issuedKeys === null ? undefined : parts.ports.issuedKeys
  if (store === undefined) return []
  return (await reached(parts, () => store.read(null)))?.keys ?? []
}

/** Whether keys can be made at run time. */
const canIssue = ({ config, ports }: IssuedKeyParts): boolean =>
  config.issuedKeys !== null && ports.issuedKeys !== undefined

/** Fails with `not_configured` if no keys are made at run time. */
function storeOf({ config, ports }: IssuedKeyParts): IssuedKeyStore {
  if (config.issuedKeys !== null && ports.issuedKeys !== undefined) return ports.issuedKeys
  throw new Failure(
    'not_configured',
    'Keys cannot be created at run time. Set `issued_keys` in the configuration, or add the key to `keys`.',
  )
}

/** Fails with `state_unreachable` if the store does not answer. */
async function reached<Value>({ ports }: IssuedKeyParts, call: () => Promise<Value>): Promise<Value> {
  try {
    return await call()
  } catch (error) {
    ports.log.error('issued_keys_unreachable', { error })
    throw new Failure('state_unreachable', 'The store of the issued keys cannot be reached. Nothing was changed.')
  }
}

/** Fields that only keys of the configuration have. */
type ConfiguredField = 'edge' | 'secrets'

/** Fields that only keys made at run time have. */
type IssuedField = 'owner' | 'expires' | 'created_at'

function configuredView(key: KeyConfig, usage: UsageByKey): AllFields<Omit<KeyView, IssuedField>> {
  return {
    source: 'configuration',
    ...rightsView(key, usage),
    edge: key.edge,
    secrets: key.secrets.map(({ from, expires }) => ({ from, expires })),
  }
}

function issuedView(key: IssuedKey, usage: UsageByKey): AllFields<Omit<KeyView, ConfiguredField>> {
  const { owner, expires, createdAt } = key
  return { source: 'issued', ...rightsView(key, usage), owner, expires, created_at: createdAt }
}

function rightsView(key: KeyRights & Pick<IssuedKey, 'name'>, usage: UsageByKey) {
  const { name } = key
  return { name, ...keyRightsView(rightsOf(key)), usage: usage[name] && countsView(usage[name]) }
}

const keyRightsView = (rights: KeyRights): KeyRightsView => toSnakeCase(rights)

/** The rights of a key alone, so that no secret gets into a view. */
function rightsOf(key: KeyRights): KeyRights {
  return {
    team: key.team,
    models: key.models,
    regions: key.regions,
    regionOrder: key.regionOrder,
    class: key.class,
    weight: key.weight,
    priority: key.priority,
    allowOverrides: key.allowOverrides,
    ttftDeadlineMs: key.ttftDeadlineMs,
    limits: key.limits,
    budgets: key.budgets,
  }
}

export const countsView = (counts: KeyCounts): CountsView => toSnakeCase(counts)
