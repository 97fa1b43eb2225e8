/** Equal to package.json; a test holds it there. */
export const VERSION = '0.1.0'
