import { adapters } from './adapters.ts'
import { caches } from './caches.ts'
import { legs } from './legs.ts'
import { measures } from './measures.ts'
import type { Mutation } from './mutation.ts'
import { objects } from './objects.ts'
import { origin } from './origin.ts'
import { pool } from './pool.ts'
import { refusals } from './refusals.ts'
import { relay } from './relay.ts'
import { reports } from './reports.ts'
import { routing } from './routing.ts'

export const mutations: readonly Mutation[] = [
  ...routing,
  ...pool,
  ...caches,
  ...measures,
  ...reports,
  ...origin,
  ...relay,
  ...legs,
  ...objects,
  ...refusals,
  ...adapters,
]
