declare const FIRSTLIGHT_DOCS: boolean | undefined

/**
 * Whether schemas have descriptions: `npm run docs` and editors need them, a gateway does not. Builds set
 * FIRSTLIGHT_DOCS to false, and then drop the texts: 30 kB of a Worker.
 */
export const DOCS: boolean = typeof FIRSTLIGHT_DOCS === 'undefined' || FIRSTLIGHT_DOCS
