/** Keys of clients. */
import * as z from 'zod/mini'
import { issuedKey } from '../../config/key-schema.ts'
import type { IssuedKey } from '../../core/keys/issued-key.ts'
import { component, described, flag, milliseconds, number, text, texts } from './fields.ts'
import { counts } from './usage.ts'
import type { View, ViewOf } from './view.ts'

const limits = z.object({
  requests_per_min: z.nullable(number),
  tokens_per_min: z.nullable(number),
  tokens_per_day: z.nullable(number),
  concurrent: z.nullable(number),
})

const budget = z.object({
  per: z.enum(['day', 'month']),
  tokens: z.nullable(number),
  engine_s: z.nullable(number),
  money: z.nullable(number),
  at_end: z.enum(['refuse', 'sheddable']),
})

const rights = z.object({
  team: z.nullable(text),
  models: z.nullable(texts),
  regions: z.nullable(texts),
  region_order: z.nullable(texts),
  class: z.enum(['critical', 'standard', 'sheddable']),
  weight: number,
  priority: z.nullable(number),
  allow_overrides: flag,
  ttft_deadline_ms: z.nullable(number),
  limits: z.nullable(limits),
  budgets: z.nullable(z.array(budget)),
})

/** What the owner of a key may do, and how its requests are treated. */
export type KeyRights = Omit<IssuedKey, 'name' | 'sha256' | 'createdAt' | 'owner' | 'expires'>

export type KeyRightsView = ViewOf<typeof rights, KeyRights>

const key = component(
  'Key',
  z.object({
    name: text,
    source: described('`issued`: made at run time.', z.enum(['configuration', 'issued'])),
    owner: z.optional(z.nullable(text)),
    ...rights.shape,
    expires: z.optional(z.nullable(text)),
    created_at: z.optional(milliseconds),
    edge: z.optional(flag),
    secrets: z.optional(
      described(
        'Times of each secret of a configured key.',
        z.array(z.object({ from: z.nullable(text), expires: z.nullable(text) })),
      ),
    ),
    usage: z.optional(counts),
  }),
)

export type KeyView = View<typeof key>

export const keys = component(
  'Keys',
  z.object({ issued_keys: described('Keys can be created at run time.', flag), keys: z.array(key) }),
)

export type KeysView = View<typeof keys>

export const keyRequest = component('KeyRequest', issuedKey)

export const newKey = component('NewKey', z.extend(key, { key: described('The secret.', text) }))

export type NewKeyView = View<typeof newKey>

export const revokedKey = component('RevokedKey', z.object({ name: text, revoked: flag }))

export type RevokedKeyView = View<typeof revokedKey>
