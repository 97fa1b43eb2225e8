import { cluster } from './cluster.ts'
import { legs } from './legs.ts'
import { measures } from './measures.ts'
import type { Mutation } from './mutation.ts'
import { objects } from './objects.ts'
import { origin } from './origin.ts'
import { routing } from './routing.ts'

export const mutations: readonly Mutation[] = [...routing, ...cluster, ...measures, ...origin, ...legs, ...objects]
