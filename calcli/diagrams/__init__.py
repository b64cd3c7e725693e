"""Pictures of calibration: `curves` makes the numbers; `terminal`, `image` and `page` only draw them."""
