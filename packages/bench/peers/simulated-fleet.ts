/** Model and profile of the simulated engines, which have a process of their own. */
export const MODEL = 'sim'
export const PROFILE = 'agentic'
