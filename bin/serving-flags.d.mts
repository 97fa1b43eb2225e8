export declare const servingFlags: readonly string[]
export declare const servingEnv: (env: NodeJS.ProcessEnv) => NodeJS.ProcessEnv
