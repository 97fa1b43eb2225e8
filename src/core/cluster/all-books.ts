import type { Books } from './books.ts'
import { LoadBooks } from './load-books.ts'
import { RoutingBooks } from './routing-books.ts'

/** Every set of books a cluster keeps. A new one is added here and nowhere else; where two answer for a signal, the later one does. */
export function allBooks(): readonly Books[] {
  return [new LoadBooks(), new RoutingBooks()]
}
