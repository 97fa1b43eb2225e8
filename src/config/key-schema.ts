/** Schema of the keys of clients: limits, rights, expiry, and tokens of an identity provider. */
import * as z from 'zod/mini'
import {
  dateText,
  describe,
  headerName,
  id,
  int,
  milliseconds,
  clientModel,
  number,
  oneOf,
  strict,
  text,
  withDefault,
} from './fields.ts'
import { secretText, verifiedSecret } from './secret-fields.ts'

export const keyLimits = strict({
  requests_per_min: describe('Requests in any minute. Absent: no limit.', z.optional(int(1, 1_000_000_000))),
  tokens_per_min: describe(
    'Tokens of prompts and outputs in any minute: estimated at the start of a request, exact at its end. Absent: ' +
      'no limit.',
    z.optional(int(1, 1_000_000_000_000)),
  ),
  tokens_per_day: describe('The same per day in UTC. Absent: no limit.', z.optional(int(1, 1_000_000_000_000))),
  concurrent: describe('Requests that run at the same time. Absent: no limit.', z.optional(int(1, 1_000_000))),
})

const budget = strict({
  per: describe('Period, in UTC: a calendar day or a calendar month.', oneOf(['day', 'month'])),
  tokens: describe('Tokens of prompts and outputs. Absent: no limit.', z.optional(int(1, 1_000_000_000_000_000))),
  engine_s: describe(
    'Engine seconds (docs/cost.md). It needs `cost` of a pool. Absent: no limit.',
    z.optional(number(0.001, 1_000_000_000)),
  ),
  money: describe(
    'Money by `price_per_engine_hour`. It needs a pool with a price. Absent: no limit.',
    z.optional(number(0.000_001, 1_000_000_000)),
  ),
  at_end: describe(
    'What happens to requests when the budget is spent: 429 `budget_spent`, or the class `sheddable`.',
    withDefault(oneOf(['refuse', 'sheddable']), 'refuse'),
  ),
})

const budgets = describe(
  'What may be used per day and month (docs/key-limits.md#budgets). Absent: no budget.',
  z.optional(z.array(budget).check(z.minLength(1), z.maxLength(8))),
)

const models = z.array(clientModel).check(z.minLength(1))

/** What the owner of a key may do, and how its requests are treated. */
const rights = {
  team: describe('Team of `teams` that the key belongs to. Absent: none.', z.optional(id)),
  models: describe(
    'Models and aliases that the key may use, also patterns of `aliases`. Absent: those of its team, or all.',
    z.optional(models),
  ),
  regions: describe(
    '`region` of the clusters that may serve requests with this key; no other cluster gets them ' +
      '(docs/residency.md). Absent: those of its team, or all.',
    z.optional(z.array(id).check(z.minLength(1))),
  ),
  region_order: describe(
    'Regions in the order in which requests with this key prefer them, instead of `region_preference.order`. ' +
      'Absent: that order.',
    z.optional(z.array(id).check(z.minLength(1))),
  ),
  allow_overrides: describe(
    'Whether requests with this key may override the routing policy and its weights.',
    withDefault(z.boolean(), false),
  ),
  priority: describe(
    '`priority` of all requests with this key at the engines, instead of the client’s value (vLLM with ' +
      '`--scheduling-policy priority`: lower values are served first). Absent: none is set, and clients may send ' +
      'one only with `allow_overrides`.',
    z.optional(int(-1_000_000, 1_000_000)),
  ),
  limits: describe(
    'Limits of the key (docs/key-limits.md). Absent keys of it: those of `key_limits`.',
    z.optional(keyLimits),
  ),
  budgets,
  class: describe(
    'Class of the key’s requests under overload: `sheddable` requests are refused first, `critical` ones go first ' +
      'in the queue of a pool (docs/overload.md). Clients may choose a lower class, and a higher one only with ' +
      '`allow_overrides`.',
    withDefault(oneOf(['critical', 'standard', 'sheddable']), 'standard'),
  ),
  weight: describe(
    'Share of the key under overload, relative to other keys: of the engines’ work, and of the places for requests ' +
      'that wait.',
    withDefault(number(0.001, 1000), 1),
  ),
  ttft_deadline_ms: describe(
    'Deadline of the first token of the key’s requests. Requests that cannot meet it are refused. Clients may set ' +
      'their own with `firstlight.ttft_deadline_ms`.',
    z.optional(milliseconds()),
  ),
} as const

const cacheSalt = describe(
  'Isolates this key’s cached prefixes from those of other keys, in the gateway and in the engines. Absent: shared.',
  z.optional(secretText),
)

const expires = describe(
  'Time from which the key is rejected: a date (start of the day, UTC) or a time with a zone, such as ' +
    '`2027-01-31` or `2027-01-31T18:00:00Z`, in quotes. Absent: never.',
  z.optional(dateText),
)

/** One of several secrets of a key. */
const keySecret = strict({
  secret: describe('Bearer token that clients send.', verifiedSecret),
  from: describe(
    'Time from which the secret is accepted, in the form of `expires`. Absent: at once.',
    z.optional(dateText),
  ),
  expires,
})

export const key = strict({
  name: describe('Owner of the key, logged as `tenant`.', id),
  secret: describe('Bearer token that clients send. Absent: see `secrets`.', z.optional(verifiedSecret)),
  expires,
  secrets: describe(
    'Several secrets of one owner, instead of `secret` and `expires`, so that a rotation overlaps ' +
      '(docs/authentication.md). They share limits, rights and usage.',
    z.optional(z.array(keySecret).check(z.minLength(1))),
  ),
  edge: describe(
    'The key belongs to another Firstlight in front of this one, which may read the digests of ' +
      '`/v1/firstlight/digest`.',
    withDefault(z.boolean(), false),
  ),
  cache_salt: cacheSalt,
  ...rights,
})

/** Body with which an operator makes a key at run time: no secrets, which could name variables of the environment. */
export const issuedKey = strict({
  name: describe('Owner of the key, logged as `tenant`.', id),
  owner: describe('Person or system that uses the key, for the operator.', z.optional(text(200))),
  expires,
  ...rights,
})

export const issuedKeys = strict({
  file: describe(
    'Node only: file with the hashes of the keys, relative to the configuration’s folder. Its folder must be ' +
      'writable. Absent with `replicas`: the keys are on the Valkey server, for all replicas. Without effect on ' +
      'Workers, where the object `EdgeObject` has the keys.',
    z.optional(text(1024)),
  ),
  refresh_ms: describe(
    'Age at which a gateway reads the keys again before it accepts one: a key that was revoked at another thread, ' +
      'process or isolate is accepted for so long at most. A new key is accepted within a second.',
    withDefault(int(100, 600_000), 5_000),
  ),
})

export const team = strict({
  name: describe('Name of the team.', id),
  models: describe('Models of keys of the team that name none. Absent: all.', z.optional(models)),
  regions: describe(
    'Regions of keys of the team that name none. Absent: all.',
    z.optional(z.array(id).check(z.minLength(1))),
  ),
  limits: describe(
    'Limits of all keys of the team together, beside the limits of each key (docs/key-limits.md). Absent: none.',
    z.optional(keyLimits),
  ),
  budgets,
})

export const jwt = strict({
  jwks_url: describe(
    'URL of the issuer’s public keys (JWKS). Fetched every 10 minutes while requests with tokens arrive.',
    z.url({ protocol: /^https?$/, error: 'must be an http or https URL' }),
  ),
  issuer: describe('Required `iss` of the tokens.', text(512)),
  audience: describe('Required `aud` of the tokens.', text(512)),
  name_claim: describe(
    'Claim with the owner’s name, logged as `tenant` with the prefix `jwt:`.',
    withDefault(text(64), 'sub'),
  ),
  header: describe(
    'Header that carries the token without a scheme, such as `cf-access-jwt-assertion`. Absent: `authorization: ' +
      'Bearer`.',
    z.optional(headerName),
  ),
  cache_salt: cacheSalt,
  ...rights,
})
